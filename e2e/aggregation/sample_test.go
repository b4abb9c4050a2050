package aggregation

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const wardle = "wardle.example.com"

var flunders = schema.GroupVersionResource{Group: wardle, Version: "v1alpha1", Resource: "flunders"}

// sample is the unmodified k8s.io/sample-apiserver with an etcd of its own,
// put there with the manifest of config/examples.
type sample struct {
	*environment
	process          *harness.Process
	etcd, kubeconfig string
	port             int
	files            certificateFiles
}

func newSample(t *testing.T) *sample {
	t.Helper()
	e := newEnvironment(t)
	s := &sample{environment: e, port: harness.FreePort(t), etcd: startEtcd(t)}
	ca := newAuthority(t)
	s.files = newCertificateFiles(t, ca, "api.wardle.svc")
	manifest := string(harness.ReadFile(t, filepath.Join(harness.Root(t), "config", "examples", "sample-apiserver.yaml")))
	manifest = strings.ReplaceAll(manifest, "https://127.0.0.1:4443", target(s.port))
	e.Kubectl(manifest, "apply", "-f", "-")
	// What the manifest leaves to real servers: TLS that is verified.
	e.Kubectl("", "patch", "apiservice", "v1alpha1."+wardle, "--type=merge",
		"--patch", fmt.Sprintf(`{"spec":{"insecureSkipTLSVerify":false,"caBundle":%q}}`, encode(ca.bundle)))
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	harness.Runs(t, harness.ExitOK, "kubeconfig", "create", "--data-dir", e.Dir, "--service-account", "wardle/apiserver", "--output", s.kubeconfig)
	s.launch(t)
	e.waitAvailable(wardle, "True", "Passed")
	e.waitListed(wardle+"/v1alpha1", true)
	return s
}

// launch starts the server, again on the same data.
func (s *sample) launch(t *testing.T) {
	t.Helper()
	binary := harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "k8s.io/sample-apiserver", "sample-apiserver")
	s.process = start(t, binary, "--etcd-servers", s.etcd, "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(s.port),
		"--kubeconfig", s.kubeconfig, "--authentication-kubeconfig", s.kubeconfig, "--authorization-kubeconfig", s.kubeconfig,
		"--tls-cert-file", s.files.certificate, "--tls-private-key-file", s.files.key)
}

func startEtcd(t *testing.T) string {
	t.Helper()
	binary := harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "go.etcd.io/etcd/server/v3", "etcd")
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", harness.FreePort(t)), fmt.Sprintf("http://127.0.0.1:%d", harness.FreePort(t))
	start(t, binary, "--data-dir", filepath.Join(t.TempDir(), "etcd"), "--unsafe-no-fsync", "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	return client
}

func (s *sample) flunders(namespace string) dynamic.ResourceInterface {
	return s.Dynamic().Resource(flunders).Namespace(namespace)
}

func flunder(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": flunders.GroupVersion().String(), "kind": "Flunder", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"reference": "a", "referenceType": "Flunder"},
	}}
	object.SetOwnerReferences(owners)
	return object
}

func (s *sample) createFlunder(namespace, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	s.environment.t.Helper()
	created, err := s.flunders(namespace).Create(s.environment.t.Context(), flunder(name, owners...), metav1.CreateOptions{})
	if err != nil {
		s.environment.t.Fatalf("create flunder %s/%s: %v", namespace, name, err)
	}
	return created
}

// TestSampleAPIServer puts the unmodified sample server behind the aggregator.
//
// Spec: "Aggregator Should be able to support the 1.17 Sample API Server using
// the current Aggregator [LinuxOnly]".
func TestSampleAPIServer(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	for name, test := range map[string]func(*testing.T, *sample){
		"kubectl works as with native types":            kubectlWorks,
		"watches deliver":                               watchesDeliver,
		"discovery and OpenAPI are merged":              schemasAreMerged,
		"RBAC decides on the user who asked":            rbacDecides,
		"objects of both servers are garbage collected": collected,
		"quota counts its objects":                      quotaCounts,
		"deleting a namespace deletes its content":      namespaceDeletion,
	} {
		t.Run(name, func(t *testing.T) {
			bound := *s
			bound.environment = s.forTest(t)
			test(t, &bound)
		})
	}
	t.Run("its APIService ends", func(t *testing.T) {
		bound := *s
		bound.environment = s.forTest(t)
		apiServiceEnds(t, &bound)
	})
}

// apiServiceEnds deletes the APIService, which takes the types away.
func apiServiceEnds(t *testing.T, s *sample) {
	if err := s.Dynamic().Resource(apiServices).Delete(t.Context(), "v1alpha1."+wardle, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitListed(wardle+"/v1alpha1", false)
	harness.Eventually(t, "the types are gone", func() error {
		_, err := s.flunders("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("a list gives: %w", err)
		}
		return nil
	})
	harness.Eventually(t, "OpenAPI has them no more", func() error {
		for _, path := range []string{"/openapi/v2", "/openapi/v3"} {
			data, err := s.Client().Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
			// Upstream leaves the group's name behind in types that others have, too.
			if err != nil || strings.Contains(string(data), "apis/"+wardle) {
				return fmt.Errorf("%s has paths of %s: %w", path, wardle, err)
			}
		}
		return nil
	})
}

func kubectlWorks(t *testing.T, s *sample) {
	namespace := unique("kubectl")
	s.createNamespace(namespace)
	manifest := "apiVersion: wardle.example.com/v1alpha1\nkind: Flunder\nmetadata: {name: one, namespace: " + namespace + ", labels: {a: b}}\n"
	s.Kubectl(manifest, "create", "-f", "-")
	if out := s.Kubectl("", "get", "flunders", "-n", namespace); !strings.Contains(out, "CREATED AT") || !strings.Contains(out, "one") {
		t.Errorf("the table is:\n%s", out)
	}
	applied := strings.Replace(manifest, "a: b", "a: c", 1)
	s.Kubectl(applied, "apply", "--server-side", "--force-conflicts", "-f", "-")
	if out := s.Kubectl("", "get", "flunder", "one", "-n", namespace, "-o", "jsonpath={.metadata.labels.a} {.metadata.managedFields[*].operation}"); !strings.Contains(out, "c Apply") {
		t.Errorf("after a server-side apply, label and operations are %q", out)
	}
	s.Kubectl("", "delete", "flunder", "one", "-n", namespace)
	s.gone(flunders, namespace, "one")
}

func watchesDeliver(t *testing.T, s *sample) {
	namespace := unique("watch")
	s.createNamespace(namespace)
	w, err := s.flunders(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()
	s.createFlunder(namespace, "seen")
	if err := s.flunders(namespace).Delete(t.Context(), "seen", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		if event, ok := <-w.ResultChan(); !ok || event.Type != want {
			t.Fatalf("the watch delivered %q (open: %t), want %s", event.Type, ok, want)
		}
	}
}

func schemasAreMerged(t *testing.T, s *sample) {
	harness.Eventually(t, "kubectl explain knows the type", func() error {
		out, err := s.TryKubectl("", "explain", "flunder.spec.referenceType")
		if err != nil || !strings.Contains(out, "referenceType") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	harness.Eventually(t, "OpenAPI v2 has the type", func() error {
		data, err := s.Client().Discovery().RESTClient().Get().AbsPath("/openapi/v2").DoRaw(t.Context())
		if err != nil || !strings.Contains(string(data), "/apis/"+wardle+"/v1alpha1/") {
			return fmt.Errorf("%d bytes without its paths: %w", len(data), err)
		}
		return nil
	})
	if out := s.Kubectl("", "api-resources", "--api-group", wardle, "-o", "name"); !strings.Contains(out, "fischers."+wardle) {
		t.Errorf("discovery lists:\n%s", out)
	}
}

func rbacDecides(t *testing.T, s *sample) {
	namespace := unique("rbac")
	s.createNamespace(namespace)
	client, err := dynamic.NewForConfig(s.as("jane", "system:authenticated"))
	if err != nil {
		t.Fatal(err)
	}
	jane := client.Resource(flunders).Namespace(namespace)
	if _, err := jane.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"jane"`) {
		t.Fatalf("a user without rights gets: %v", err)
	}
	roles := s.Client().RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "flunders"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{wardle}, Resources: []string{"flunders"}, Verbs: []string{"list"}}}}
	if _, err := roles.Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "flunders"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "flunders"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	}
	if _, err := roles.RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the user may list", func() error {
		_, err := jane.List(t.Context(), metav1.ListOptions{})
		return err
	})
	if _, err := jane.Create(t.Context(), flunder("no"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user who may only list creates: %v", err)
	}
}

func collected(t *testing.T, s *sample) {
	namespace := unique("gc")
	s.createNamespace(namespace)
	maps := s.Client().CoreV1().ConfigMaps(namespace)
	owner := s.createFlunder(namespace, "owner")
	reference := metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}
	native := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "native", OwnerReferences: []metav1.OwnerReference{reference}}}
	native, err := maps.Create(t.Context(), native, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.createFlunder(namespace, "grandchild", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: native.Name, UID: native.UID})
	if err := s.flunders(namespace).Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.gone(configMaps, namespace, "native")
	s.gone(flunders, namespace, "grandchild")
}

func quotaCounts(t *testing.T, s *sample) {
	namespace := unique("quota")
	s.createNamespace(namespace)
	// The sample server has no quota admission, so that only what is there
	// when usage is calculated counts.
	s.createFlunder(namespace, "counted")
	const counted = corev1.ResourceName("count/flunders." + wardle)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "flunders"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("5")}}}
	quotas := s.Client().CoreV1().ResourceQuotas(namespace)
	if _, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the quota counts the object", func() error {
		current, err := quotas.Get(t.Context(), "flunders", metav1.GetOptions{})
		if err != nil {
			return err
		}
		used := current.Status.Used[counted]
		if used.Value() == 1 {
			return nil
		}
		// The controller may not have seen the object when it counted, and
		// counts again when the quota changes.
		hard := current.Spec.Hard[counted]
		hard.Add(resource.MustParse("1"))
		current.Spec.Hard[counted] = hard
		_, err = quotas.Update(t.Context(), current, metav1.UpdateOptions{})
		return errors.Join(fmt.Errorf("used: %s", used.String()), err)
	})
}

func namespaceDeletion(t *testing.T, s *sample) {
	namespace := unique("doomed")
	s.createNamespace(namespace)
	s.createFlunder(namespace, "content")
	namespaces := s.Client().CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.gone(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", namespace)
	left, err := s.flunders(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("left in the deleted namespace: %v, %v", left, err)
	}
}
