package planes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
)

// sleepsVariable is the number of sleeps of TestNoEventIsLostOrRepeated. `make planes-long` sets
// it to 100.
const sleepsVariable = "PLANES_SLEEPS"

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	widgets    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// history is what happened to objects: for each, its resourceVersions in order, and "deleted".
type history struct {
	mu      sync.Mutex
	objects map[string][]string
	last    uint64 // resourceVersion
	wrong   []string
}

const deleted = "deleted"

func newHistory() *history { return &history{objects: map[string][]string{}} }

// note appends an event: "+" for a creation, "~" for an update, "=" for what may be known, or
// deleted. It returns the object's key.
func (h *history) note(kind string, object any) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, err := meta.Accessor(object)
	if err != nil {
		h.wrong = append(h.wrong, fmt.Sprintf("%s %T: %v", kind, object, err))
		return ""
	}
	key, version := o.GetNamespace()+"/"+o.GetName(), o.GetResourceVersion()
	if !strings.HasPrefix(o.GetName(), "w-") {
		return key // of the control plane
	}
	events := h.objects[key]
	exists := len(events) > 0 && events[len(events)-1] != deleted
	if kind == "=" && exists && events[len(events)-1] == version {
		return key
	}
	if number, err := strconv.ParseUint(version, 10, 64); err != nil || kind != "=" && (kind == "+") == exists || kind != deleted && number <= h.last {
		h.wrong = append(h.wrong, fmt.Sprintf("%s%s of %s came after %v and %d", kind, version, key, events, h.last))
	} else if kind != deleted {
		h.last = number
	}
	if kind == deleted {
		version = deleted
	}
	h.objects[key] = append(events, version)
	return key
}

// has reports whether the object exists according to the history.
func (h *history) has(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.objects[key]) > 0
}

// differences returns what distinguishes the history of an observer from this one. One that has
// listed again has not seen what came and went before.
func (h *history) differences(o *observer) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	client := o.history
	client.mu.Lock()
	defer client.mu.Unlock()
	var found []string
	again := o.lists.Load() > 1
	if !again {
		found = append(found, client.wrong...)
	}
	for key, want := range h.objects {
		got := client.objects[key]
		if again {
			if len(got) == 0 {
				got = want[len(want)-1:]
			}
			want = slices.DeleteFunc(slices.Clone(want), func(event string) bool { return !slices.Contains(got, event) })
			want, got = slices.Compact(want), slices.Compact(slices.Clone(got))
		}
		if strings.HasPrefix(key, o.namespace) && !slices.Equal(got, want) {
			found = append(found, fmt.Sprintf("%s: has %v, want %v", key, got, want))
		}
	}
	for key, got := range client.objects {
		if h.objects[key] == nil {
			found = append(found, fmt.Sprintf("%s: has %v, which nobody wrote", key, got))
		}
	}
	return found
}

// writer writes to some objects of one resource in one namespace, and notes what it does.
type writer struct {
	objects  dynamic.ResourceInterface
	new      func(name string) *unstructured.Unstructured
	prefix   string
	history  *history
	existing []*unstructured.Unstructured
	made     int
}

// write makes one change.
func (w *writer) write(ctx context.Context) error {
	i := 0
	if len(w.existing) > 0 {
		i = rand.IntN(len(w.existing))
	}
	switch choice := rand.IntN(4); {
	case len(w.existing) < 2 || choice == 0 && len(w.existing) < 10:
		w.made++
		o, err := w.objects.Create(ctx, w.new(fmt.Sprintf("w-%s-%d", w.prefix, w.made)), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		w.existing = append(w.existing, o)
		w.history.note("+", o)
	case choice == 1:
		o := w.existing[i]
		if err := w.objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil {
			return err
		}
		w.existing = slices.Delete(w.existing, i, i+1)
		w.history.note(deleted, o)
	default:
		o := w.existing[i].DeepCopy()
		o.SetAnnotations(map[string]string{"random": fmt.Sprint(rand.Int())})
		o, err := w.objects.Update(ctx, o, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		w.existing[i] = o
		w.history.note("~", o)
	}
	return nil
}

// writers write at moments of the sleep of a control plane.
type writers struct {
	list   []*writer
	plane  *plane
	paused sync.RWMutex // held for reading during a write
}

// run has each writer make a few changes after each of its moments until ctx ends.
func (w *writers) run(ctx context.Context) error {
	var running errgroup.Group
	for _, one := range w.list {
		running.Go(func() error {
			for ctx.Err() == nil {
				w.awaitMoment(ctx)
				w.paused.RLock()
				for range 1 + rand.IntN(4) {
					if err := one.write(context.WithoutCancel(ctx)); err != nil {
						w.paused.RUnlock()
						return fmt.Errorf("writer %s: %w", one.prefix, err)
					}
				}
				w.paused.RUnlock()
			}
			return nil
		})
	}
	return running.Wait()
}

// awaitMoment waits until the control plane begins to stop, or sleeps, or starts; seldom for
// another moment, which interrupts a sleep before it begins.
func (w *writers) awaitMoment(ctx context.Context) {
	moment := []state{stopping, asleep, waking}[rand.IntN(3)]
	var other <-chan time.Time
	if rand.IntN(10) == 0 {
		other = time.After(time.Duration(rand.IntN(1000)) * time.Millisecond)
	}
	for {
		w.plane.mu.Lock()
		now, changed := w.plane.state, w.plane.change()
		w.plane.mu.Unlock()
		if now == moment {
			return
		}
		if now == asleep { // perhaps no other writer wakes it
			other = time.After(time.Duration(rand.IntN(100)) * time.Millisecond)
		}
		select {
		case <-changed:
		case <-other:
			return
		case <-ctx.Done():
			return
		}
	}
}

// newWriters returns three writers, and what they note.
func newWriters(objects dynamic.Interface) (*writers, map[schema.GroupVersionResource]*history) {
	histories := map[schema.GroupVersionResource]*history{configMaps: newHistory(), widgets: newHistory()}
	kinds := map[schema.GroupVersionResource]string{configMaps: "ConfigMap", widgets: "Widget"}
	w := &writers{}
	add := func(resource schema.GroupVersionResource, namespace, prefix string) {
		w.list = append(w.list, &writer{
			objects: objects.Resource(resource).Namespace(namespace), prefix: prefix, history: histories[resource],
			new: func(name string) *unstructured.Unstructured {
				o := &unstructured.Unstructured{}
				o.SetAPIVersion(resource.GroupVersion().String())
				o.SetKind(kinds[resource])
				o.SetName(name)
				o.SetLabels(map[string]string{"test": "yes"})
				return o
			},
		})
	}
	add(configMaps, "default", "a")
	add(configMaps, "kube-public", "b")
	add(widgets, "default", "c")
	return w, histories
}

// createWidgets makes the type of custom resources.
func createWidgets(t *testing.T, config *rest.Config, version string) {
	t.Helper()
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes},
			}}},
		},
	}
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// compact removes the history of the store of a control plane while it sleeps.
func (h *testHost) compact(t *testing.T, name string) {
	t.Helper()
	p := h.known(t, name)
	release, err := p.hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	member, stop, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(p.dir(), "etcd"), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := member.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestNoEventIsLostOrRepeated: through many sleeps at any moment of concurrent writes, some with
// the history compacted, each kind of client gets each event once and in order.
func TestNoEventIsLostOrRepeated(t *testing.T) {
	t.Parallel()
	sleeps := 8
	if text := os.Getenv(sleepsVariable); text != "" {
		var err error
		if sleeps, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t)
	h.create(t, "acme", nil)
	config := h.configOf("acme")
	createWidgets(t, config, "v1")
	objects := newDynamic(t, config)
	writers, histories := newWriters(objects)
	writers.plane = h.known(t, "acme")
	for _, w := range writers.list { // a watch that began without a revision ends with the sleep
		if err := w.write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	clients := startClients(t, config)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	written := make(chan error, 1)
	go func() {
		defer stop()
		written <- writers.run(ctx)
	}()
	for i := range sleeps {
		compacts := i%4 == 3
		if compacts {
			writers.paused.Lock()
		}
		for ctx.Err() == nil && !writers.plane.sleep(ctx, 0) && (!compacts || !writers.plane.is(asleep)) {
		}
		if compacts {
			h.compact(t, "acme")
			writers.paused.Unlock()
		}
	}
	stop()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	for _, w := range writers.list {
		o, err := w.objects.Create(t.Context(), w.new("w-end"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.history.note("+", o)
	}
	for _, c := range clients {
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
			return c.history.has("default/w-end") && (c.namespace != "" || c.resource == widgets || c.history.has("kube-public/w-end")), nil
		})
		if differences := histories[c.resource].differences(c); err != nil || len(differences) > 0 {
			t.Errorf("%s: %v\n%s", c.name, err, strings.Join(differences, "\n"))
		}
		t.Logf("%s: %d sleeps, %d watches, %d lists", c.name, sleeps, c.watches.Load(), c.lists.Load())
	}
}
