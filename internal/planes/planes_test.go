package planes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// testHost is a host with its manager.
type testHost struct {
	*Manager
	config  *rest.Config // of its administrator
	objects dynamic.ResourceInterface
	server  *controlplane.ControlPlane
}

// newHost starts a host whose control planes sleep only when a test says so.
func newHost(t testing.TB, changes ...func(*config.ServerConfiguration)) *testHost {
	t.Helper()
	dir := t.TempDir()
	cfg := config.Default()
	cfg.Serving.Port = 0
	cfg.Etcd.Embedded.Fsync = false
	cfg.Planes.SleepAfter = config.Duration{Duration: time.Hour}
	var host *controlplane.ControlPlane
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.DataDir = dir
	for _, change := range changes {
		change(cfg)
	}
	if err := cfg.Complete(); err != nil { // as the command does
		t.Fatal(err)
	}
	manager := New(Config{Host: cfg, Log: log, URL: func() string { return host.URL() }})
	options := controlplane.Options{Config: cfg, Listen: true, Log: log}
	manager.Extend(&options)
	host, err := controlplane.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	admin, err := clientcmd.BuildConfigFromFlags("", host.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return &testHost{manager, admin, newDynamic(t, admin).Resource(Resource), host}
}

// restart stops the host, has its files changed, and starts another one.
func (h *testHost) restart(t *testing.T, meanwhile func(dataDir string)) *testHost {
	t.Helper()
	if err := h.server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := h.Manager.config.Host.DataDir
	meanwhile(dir)
	return newHost(t, func(c *config.ServerConfiguration) { c.DataDir = dir })
}

// create makes a ControlPlane and returns a client for it.
func (h *testHost) create(t testing.TB, name string, spec map[string]any) kubernetes.Interface {
	t.Helper()
	if err := h.tryCreate(t.Context(), name, spec); err != nil {
		t.Fatal(err)
	}
	h.await(t, name, func(o *object) bool { return o.Status.Phase != "" })
	return h.client(t, name)
}

func (h *testHost) tryCreate(ctx context.Context, name string, spec map[string]any) error {
	_, err := h.objects.Create(ctx, newObject(name, spec), metav1.CreateOptions{})
	return err
}

func newObject(name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": Resource.GroupVersion().String(), "kind": "ControlPlane", "metadata": map[string]any{"name": name}}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// eventually waits until the condition is satisfied.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) { return condition(), nil }); err != nil {
		t.Fatalf("not in time: %s", what)
	}
}

// client returns a client of the host's administrator for a control plane.
func (h *testHost) client(t testing.TB, name string) kubernetes.Interface {
	t.Helper()
	return newClient(t, h.configOf(name))
}

func newClient(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func newDynamic(t testing.TB, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// known returns what the manager has of a control plane.
func (h *testHost) known(t testing.TB, name string) *plane {
	t.Helper()
	p, err := h.plane(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// await waits until the ControlPlane satisfies the condition.
func (h *testHost) await(t testing.TB, name string, condition func(*object) bool) *object {
	t.Helper()
	events, err := h.objects.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		shrunk, err := shrink(event.Object)
		if err != nil {
			t.Fatal(err)
		}
		o, err := shrunk.(*kept).object()
		if err != nil {
			t.Fatal(err)
		}
		if condition(o) {
			return o
		}
	}
	t.Fatal("the watch ended")
	return nil
}

// awaitFirstWrites waits until the control plane has all that a new one writes after it is ready: a
// write between the look at its revision and its stop ends the watches that it parks.
func awaitFirstWrites(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	core, ctx := client.CoreV1(), t.Context()
	eventually(t, "a new control plane has written its objects", func() bool {
		schemas, err := client.FlowcontrolV1().FlowSchemas().List(ctx, metav1.ListOptions{})
		errs := []error{err}
		for _, schema := range schemas.Items {
			if len(schema.Status.Conditions) == 0 {
				return false
			}
		}
		for _, namespace := range []string{"default", "kube-public", "kube-system"} {
			_, noAccount := core.ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
			_, noAuthority := core.ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			errs = append(errs, noAccount, noAuthority)
		}
		_, err = core.ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		errs = append(errs, err)
		admin, err := client.RbacV1().ClusterRoles().Get(ctx, "admin", metav1.GetOptions{})
		return errors.Join(append(errs, err)...) == nil && len(admin.Rules) > 0
	})
}

// sleepNow puts the control plane to sleep.
func (h *testHost) sleepNow(t *testing.T, name string) {
	t.Helper()
	p := h.known(t, name)
	for !p.is(asleep) && !p.sleep(t.Context(), 0) {
		if t.Context().Err() != nil {
			t.Fatal("it does not fall asleep")
		}
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "yes"}}}
}

// TestParkedBeginning: a watch without a resourceVersion that has had no event outlives a sleep, and
// one that begins with an object gets it.
func TestParkedBeginning(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	client := h.create(t, "acme", nil)
	awaitFirstWrites(t, client)
	maps := client.CoreV1().ConfigMaps("default")
	empty := watchMaps(t, maps, metav1.ListOptions{LabelSelector: "test"})
	h.sleepNow(t, "acme")
	if n := h.watches(t, "acme"); n != 1 {
		t.Errorf("%d watches outlive the sleep", n)
	}
	addMap(t, client, "one")
	began := watchMaps(t, maps, metav1.ListOptions{FieldSelector: "metadata.name=one"})
	for _, opened := range []watch.Interface{empty, began} {
		if event := <-opened.ResultChan(); event.Type != watch.Added {
			t.Errorf("it gets %v", event)
		}
	}
}

// TestParkedTypes: watches of types with a watch cache, without one, of CRDs and of custom
// resources outlive a sleep. Each gets what is written afterwards.
func TestParkedTypes(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	client := h.create(t, "acme", nil)
	objects := newDynamic(t, h.configOf("acme"))
	addMap(t, client, "one")
	awaitFirstWrites(t, client)
	h.sleepNow(t, "acme")
	types := []schema.GroupVersionResource{
		{Version: "v1", Resource: "namespaces"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Group: "kube-hyper-mini.io", Version: "v1alpha1", Resource: "serviceendpoints"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	}
	for _, resource := range types {
		outlives := func() bool {
			list, err := objects.Resource(resource).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			opened, err := objects.Resource(resource).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true})
			if err != nil {
				t.Fatal(err)
			}
			addAnother(t, client) // of another type: the watch does not see it
			h.sleepNow(t, "acme")
			parked := h.watches(t, "acme") == 1
			opened.Stop()
			if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
				return h.watches(t, "acme") == 0, nil
			}); err != nil {
				t.Fatal("the watch stays")
			}
			return parked
		}
		// A server that writes while it stops, as of its own state, does not park.
		if !slices.ContainsFunc([]int{1, 2, 3}, func(int) bool { return outlives() }) {
			t.Errorf("a watch of %s ends with the sleep", resource.Resource)
		}
	}
}

// watches returns the number of open watches.
func (h *testHost) watches(t *testing.T, name string) int {
	t.Helper()
	p := h.known(t, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watches)
}
