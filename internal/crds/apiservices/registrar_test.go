package apiservices

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// versions is a [Source] of group versions in memory.
type versions struct {
	mu      sync.Mutex
	served  []schema.GroupVersion
	changed func(schema.GroupVersion)
	known   chan struct{} // closed when all CRDs are known
}

func newVersions(served ...schema.GroupVersion) *versions {
	known := make(chan struct{})
	close(known)
	return &versions{served: served, known: known}
}

func (s *versions) Versions() []schema.GroupVersion {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.served)
}

func (s *versions) VersionsOf(group string) []schema.GroupVersion {
	return slices.DeleteFunc(s.Versions(), func(gv schema.GroupVersion) bool { return gv.Group != group })
}

func (s *versions) OnVersions(changed func(schema.GroupVersion)) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
	return func() {}
}

func (s *versions) AwaitAll(ctx context.Context) bool {
	select {
	case <-s.known:
		return true
	case <-ctx.Done():
		return false
	}
}

var (
	widgetsV1 = schema.GroupVersion{Group: "widgets.example.com", Version: "v1"}
	widgetsV2 = schema.GroupVersion{Group: "widgets.example.com", Version: "v2"}
	gadgetsV1 = schema.GroupVersion{Group: "gadgets.example.com", Version: "v1"}
)

// remote is an APIService of a user, which leads to another server.
func remote(gv schema.GroupVersion) *v1.APIService {
	service := kube.CRDAPIService(gv)
	service.UID, service.Labels = "of the user", nil
	service.Spec.Service = &v1.ServiceReference{Namespace: "default", Name: "remote"}
	return service
}

// managed is what the registrar has stored.
func managed(gv schema.GroupVersion) *v1.APIService {
	service := kube.CRDAPIService(gv)
	service.UID = "managed"
	return service
}

func await(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("await %s: %v", what, err)
}

// running runs a registrar until the test ends.
type running struct {
	*fake.Clientset
	log *lockedBuffer
}

// watchedSource is a [Source] that is complete when both informers watch: the fake client
// loses the events between a list and its watch.
type watchedSource struct {
	Source
	watching chan struct{} // has a value for each watch
}

// AwaitAll implements [Source].
func (s watchedSource) AwaitAll(ctx context.Context) bool {
	for range 2 {
		select {
		case <-s.watching:
		case <-ctx.Done():
			return false
		}
	}
	return s.Source.AwaitAll(ctx)
}

func run(t *testing.T, source Source, stored ...*v1.APIService) running {
	t.Helper()
	return runPrepared(t, source, func(*fake.Clientset) {}, stored...)
}

// runPrepared is [run] with a client that prepare changes before it is used.
func runPrepared(t *testing.T, source Source, prepare func(*fake.Clientset), stored ...*v1.APIService) running {
	t.Helper()
	var objects []runtime.Object
	for _, service := range stored {
		objects = append(objects, service)
	}
	r := running{fake.NewClientset(objects...), &lockedBuffer{}}
	prepare(r.Clientset)
	watching := make(chan struct{}, 2)
	r.PrependWatchReactor("apiservices", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watcher, err := r.Tracker().Watch(action.GetResource(), action.GetNamespace())
		select {
		case watching <- struct{}{}:
		default: // a watch after the first ones
		}
		return true, watcher, err
	})
	// The fake client does not select by labels in a watch.
	others := informers.NewFilteredAPIServiceInformer(r, 0, cache.Indexers{}, func(options *metav1.ListOptions) {})
	registrar, err := NewRegistrar(watchedSource{source, watching}, others, r, slog.New(slog.NewTextHandler(r.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { others.RunWithContext(ctx) })
	all.Go(func() { registrar.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	return r
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// awaitSpecs waits until exactly these APIServices are stored, apart from uid and
// labels.
func (r running) awaitSpecs(t *testing.T, want ...*v1.APIService) {
	t.Helper()
	await(t, "the APIServices", func() error {
		list, err := r.ApiregistrationV1().APIServices().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		got, expected := map[string]v1.APIServiceSpec{}, map[string]v1.APIServiceSpec{}
		for _, service := range list.Items {
			got[service.Name] = service.Spec
		}
		for _, service := range want {
			expected[service.Name] = service.Spec
		}
		if !reflect.DeepEqual(got, expected) {
			return fmt.Errorf("they are %+v, want %+v", got, expected)
		}
		return nil
	})
}

// TestNothingIsRegisteredBeforeAllIsKnown: before all CRDs have been read, the APIServices of
// the others would be deleted.
func TestNothingIsRegisteredBeforeAllIsKnown(t *testing.T) {
	source := &versions{known: make(chan struct{})}
	r := run(t, source, managed(widgetsV1))
	await(t, "the list of managed APIServices", func() error {
		for _, action := range r.Actions() {
			if list, ok := action.(clienttesting.ListAction); ok && !list.GetListRestrictions().Labels.Empty() {
				return nil
			}
		}
		return errors.New("not listed")
	})
	source.mu.Lock()
	source.served = []schema.GroupVersion{widgetsV1, widgetsV2}
	source.mu.Unlock()
	close(source.known)
	r.awaitSpecs(t, kube.CRDAPIService(widgetsV1), kube.CRDAPIService(widgetsV2))
	for _, action := range r.Actions() {
		if action.Matches("delete", "apiservices") {
			t.Errorf("deleted: %v", action)
		}
	}
}

// TestFailuresAreRetried: a write that fails is repeated, and logged once.
func TestFailuresAreRetried(t *testing.T) {
	const failures = 3
	source := &versions{known: make(chan struct{})}
	var tries atomic.Int32
	r := runPrepared(t, source, func(client *fake.Clientset) {
		client.PrependReactor("create", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) {
			return tries.Add(1) <= failures, nil, errors.New("the store is away")
		})
	})
	source.mu.Lock()
	source.served = []schema.GroupVersion{widgetsV1}
	source.mu.Unlock()
	close(source.known)
	r.awaitSpecs(t, kube.CRDAPIService(widgetsV1))
	if logged := strings.Count(r.log.String(), "the store is away"); logged != 1 {
		t.Errorf("%d failures are logged %d times:\n%s", failures, logged, r.log)
	}
}
