package crds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilwebhook "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

var widgetResource = schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}

// testServer is the front with upstream's handler over an embedded etcd.
type testServer struct {
	front    *front
	client   dynamic.Interface
	registry *registry
	objects  dynamic.NamespaceableResourceInterface
	etcd     *clientv3.Client
}

// testGetter hands out the storage of CRDs or of custom resources.
func testGetter(t *testing.T, store *storage.Storage) genericregistry.RESTOptionsGetter {
	t.Helper()
	options := *genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))
	getter, err := store.CustomResourceGetter(apiextensionsoptions.NewCRDRESTOptionsGetter(options, nil, nil),
		func(resource schema.GroupResource) bool { return resource == widgetResource.GroupResource() })
	if err != nil {
		t.Fatal(err)
	}
	return getter
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	member, stop, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBytes: 64 << 20, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := member.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := storage.New(storage.Connection{Client: member.Client(), NewWatcher: member.NewWatcher, Endpoint: "embedded", Single: true},
		storage.Config{Prefix: "/registry", CompactionInterval: time.Hour, Timeout: time.Minute}, slog.New(slog.DiscardHandler))
	getter := testGetter(t, store)
	protobuf, err := customresources.NewProtobufStorage(testGetter(t, store))
	if err != nil {
		t.Fatal(err)
	}
	crds, err := customresourcedefinition.NewREST(apiextensionsapiserver.Scheme, protobuf)
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := newDefinitions(protobuf, crds)
	if err != nil {
		t.Fatal(err)
	}
	catalog := newCatalog()
	f := &front{catalog: catalog, definitions: definitions, discovery: http.NotFoundHandler(), delegate: http.NotFoundHandler(), alone: isAlone, types: map[string]*servedType{}, changedTypes: make(chan struct{}, 1)}
	f.handler, err = apiextensionsapiserver.NewCustomResourceDefinitionHandler(nil, nil, f.informer(), f.delegate, getter,
		admission.NewChainHandler(), nil, utilwebhook.NewDefaultServiceResolver(), nil, 1,
		authorizerfactory.NewAlwaysAllowAuthorizer(), time.Minute, time.Minute, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f.empty = &emptyTypes{front: f, population: store.Population(), minTimeout: time.Minute, bookmarkInterval: customresources.BookmarkInterval}
	catalog.listen(f.changed)
	releasing := make(chan struct{})
	go func() {
		defer close(releasing)
		f.releaseIdle(t.Context())
	}()
	catalog.listen(f.empty.changes.changed)
	s := &testServer{front: f, etcd: member.Client(), registry: &registry{REST: crds, catalog: catalog, whole: definitions.reader, alone: isAlone}}
	s.registry.names = newNames(catalog, stored, filled)
	crds.CreateStrategy = establishing{crds.CreateStrategy}
	s.client = serveFront(t, f)
	s.objects = s.client.Resource(widgetResource)
	t.Cleanup(func() {
		<-releasing
		definitions.destroy()
		crds.Destroy()
		store.Close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serveFront returns a client of the front.
func serveFront(t *testing.T, f *front) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(&clientrest.Config{Host: frontURL(t, f), QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// frontURL serves the front and returns its URL.
func frontURL(t *testing.T, f *front) string {
	t.Helper()
	infos := &request.RequestInfoFactory{APIPrefixes: sets.NewString("apis", "api"), GrouplessAPIPrefixes: sets.NewString("api")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := infos.NewRequestInfo(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx := request.WithNamespace(request.WithRequestInfo(audit.WithAuditContext(r.Context()), info), info.Namespace)
		f.ServeHTTP(w, r.WithContext(request.WithUser(ctx, &user.DefaultInfo{Name: "test"})))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// definitionContext is that of a request for CRDs.
func definitionContext(t *testing.T) context.Context {
	return request.WithNamespace(request.WithRequestInfo(t.Context(), &request.RequestInfo{
		APIGroup: "apiextensions.k8s.io", APIVersion: "v1", Resource: "customresourcedefinitions",
	}), "")
}

// unconverted is for a CRD without a conversion webhook.
var unconverted = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}

// newDefinition is the CRD of widgets as a client sends it.
func newDefinition(t *testing.T, conversion *apiextensionsv1.CustomResourceConversion) *apiextensions.CustomResourceDefinition {
	t.Helper()
	crd := widgets()
	crd.Spec.Conversion = conversion
	crd.ObjectMeta = metav1.ObjectMeta{Name: crd.Name}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].SelectableFields, crd.Spec.Versions[i].DeprecationWarning = nil, nil
	}
	return internal(t, crd)
}

// install creates the CRD of widgets.
func (s *testServer) install(t *testing.T) {
	t.Helper()
	s.installConverted(t, unconverted)
}

// installConverted creates the CRD of widgets, which are converted so.
func (s *testServer) installConverted(t *testing.T, conversion *apiextensionsv1.CustomResourceConversion) {
	t.Helper()
	created, err := s.registry.Create(definitionContext(t), newDefinition(t, conversion), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !apiextensions.IsCRDConditionTrue(created.(*apiextensions.CustomResourceDefinition), apiextensions.Established) {
		t.Fatalf("not established: %+v", created)
	}
}

func widget(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
	object.SetAPIVersion("example.com/v2")
	object.SetKind("Widget")
	object.SetName(name)
	return object
}

// change writes another schema of the type.
func (s *testServer) change(t *testing.T, description string) {
	t.Helper()
	s.update(t, func(crd *apiextensions.CustomResourceDefinition) {
		crd.Spec.Versions[1].Schema.OpenAPIV3Schema.Description = description
	})
}

// update writes the changed CRD of widgets.
func (s *testServer) update(t *testing.T, change func(*apiextensions.CustomResourceDefinition)) {
	t.Helper()
	s.updateNamed(t, "widgets.example.com", change)
}

func (s *testServer) updateNamed(t *testing.T, name string, change func(*apiextensions.CustomResourceDefinition)) {
	t.Helper()
	ctx := definitionContext(t)
	obj, err := s.registry.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	crd := obj.DeepCopyObject().(*apiextensions.CustomResourceDefinition)
	change(crd)
	if _, _, err := s.registry.Update(ctx, crd.Name, rest.DefaultUpdatedObjectInfo(crd), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestIdleTypesAreReleasedUnderLoad: requests come while their type is released,
// again and again, and none fails.
func TestIdleTypesAreReleasedUnderLoad(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	if s.front.resident() != 0 {
		t.Fatal("a CRD that was not used is resident")
	}
	const clients, rounds = 4, 25
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for round := range rounds {
				name := fmt.Sprintf("w%d-%d", client, round)
				created, err := s.objects.Namespace("default").Create(t.Context(), widget(name), metav1.CreateOptions{})
				if err != nil {
					t.Errorf("create %s: %v", name, err)
					continue
				}
				got, err := s.objects.Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
				if err != nil || got.GetResourceVersion() != created.GetResourceVersion() {
					t.Errorf("get %s: %v, version %q, want %q", name, err, got.GetResourceVersion(), created.GetResourceVersion())
				}
				if _, err := s.objects.List(t.Context(), metav1.ListOptions{}); err != nil {
					t.Errorf("list: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	gone := 0
	for loaded := true; loaded || gone == 0; {
		select {
		case <-done:
			loaded = false
		default:
		}
		gone += s.front.release(time.Now().Add(time.Hour))
	}
	if resident := s.front.resident(); resident != 0 || len(s.front.types) != 0 {
		t.Errorf("%d types are resident, %d known, after all were released", resident, len(s.front.types))
	}
	list, err := s.objects.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != clients*rounds {
		t.Errorf("%v: %d objects, want %d", err, len(list.Items), clients*rounds)
	}
	if s.front.resident() != 1 {
		t.Error("the type did not come back")
	}
}

// builtFront has idle types with the names and UIDs of these CRDs. dropped is
// called with the UID of each type that the handler is to drop.
func builtFront(dropped func(*front, types.UID), crds ...*apiextensionsv1.CustomResourceDefinition) *front {
	f := &front{catalog: newCatalog(), types: map[string]*servedType{}, changedTypes: make(chan struct{}, 1)}
	f.events = cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) {
		dropped(f, obj.(*apiextensionsv1.CustomResourceDefinition).UID)
	}}
	for _, crd := range crds {
		f.types[crd.Name] = &servedType{whole: crd}
	}
	return f
}

// TestTypesAreDeletedDuringTheirRelease: all CRDs are deleted while the first of
// their types is released.
func TestTypesAreDeletedDuringTheirRelease(t *testing.T) {
	t.Parallel()
	crds := []*apiextensionsv1.CustomResourceDefinition{
		light("as", "example.com", "1", 5), light("bs", "example.com", "2", 6), light("cs", "example.com", "3", 7),
	}
	var drops []types.UID
	f := builtFront(func(f *front, uid types.UID) {
		if drops = append(drops, uid); len(drops) > 1 {
			return
		}
		for _, crd := range crds {
			f.changed(crd, nil)
		}
	}, crds...)
	f.release(time.Now())
	f.dropOutdated()
	if slices.Sort(drops); !slices.Equal(slices.Compact(drops), []types.UID{"1", "2", "3"}) || len(f.types) != 0 {
		t.Errorf("dropped %q, %d types are known", drops, len(f.types))
	}
}

// TestTypesAreReleasedOneByOne: requests of idle types do not wait for others.
func TestTypesAreReleasedOneByOne(t *testing.T) {
	t.Parallel()
	first, second := light("as", "example.com", "1", 5), light("bs", "example.com", "2", 6)
	var drops []types.UID
	f := builtFront(func(f *front, uid types.UID) {
		drops = append(drops, uid)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, crd := range []*apiextensionsv1.CustomResourceDefinition{first, second} {
			leave, err := f.beginUse(ended, crd.Name)
			if waits := err != nil; waits != (crd.UID == uid) {
				t.Errorf("a request of %s waits: %t, while %s is dropped", crd.UID, waits, uid)
			}
			if err == nil {
				t.Cleanup(leave)
			}
		}
	}, first, second)
	if gone := f.release(time.Now()); gone != 1 || len(drops) != 1 {
		t.Errorf("%d types were released, %q dropped; want the one without requests", gone, drops)
	}
}

// TestTypesUnderDeletionAreNotReleased, nor built again: upstream's finalizer deletes their
// objects, which may take longer than the time after which a type is idle.
func TestTypesUnderDeletionAreNotReleased(t *testing.T) {
	t.Parallel()
	crd := light("as", "example.com", "1", 5)
	f := builtFront(func(_ *front, uid types.UID) { t.Errorf("%s is dropped", uid) }, crd)
	deleting := light("as", "example.com", "1", 6)
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	f.catalog.wrote(deleting)
	f.changed(crd, deleting)
	if gone := f.release(time.Now()); gone != 0 || f.resident() != 1 {
		t.Errorf("%d types were released, %d are resident", gone, f.resident())
	}
}

// TestChangesDoNotWaitForTheHandler: a write of a CRD is answered while the handler, which is
// to drop the old type, builds another one.
func TestChangesDoNotWaitForTheHandler(t *testing.T) {
	t.Parallel()
	crd := light("as", "example.com", "1", 5)
	dropping, built := make(chan struct{}), make(chan struct{})
	f := builtFront(func(*front, types.UID) {
		close(dropping)
		<-built
	}, crd)
	f.catalog.listen(f.changed)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.releaseIdle(ctx)
	}()
	for version := 6; version < 9; version++ {
		changed := light("as", "example.com", "1", version)
		changed.Generation = int64(version)
		f.catalog.wrote(changed)
		<-dropping
	}
	close(built)
	cancel()
	<-ended
	if f.resident() != 0 {
		t.Error("the type is still served as it was")
	}
}

// TestTypesOfNewDefinitions: another server has deleted the CRD of a type that
// is built here and made another, and this one receives the new one first.
func TestTypesOfNewDefinitions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		added *apiextensionsv1.CustomResourceDefinition
		want  int // types that stay
	}{
		{"another CRD", light("as", "example.com", "2", 9), 0},
		{"the CRD that it was built from", light("as", "example.com", "1", 5), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var drops []types.UID
			f := builtFront(func(_ *front, uid types.UID) { drops = append(drops, uid) }, light("as", "example.com", "1", 5))
			f.changed(nil, test.added)
			f.dropOutdated()
			if f.resident() != test.want || slices.Contains(drops, "1") != (test.want == 0) {
				t.Errorf("%d types are resident, dropped %q", f.resident(), drops)
			}
		})
	}
}

// TestChangedTypesAreBuiltAgain: the new schema is served when the change is answered. A
// watch of the old one ends, as with kube-apiserver.
func TestChangedTypesAreBuiltAgain(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	watcher := s.watch(t, metav1.ListOptions{ResourceVersion: s.create(t, "one").GetResourceVersion()})
	s.change(t, "changed")
	if s.front.resident() != 0 {
		t.Error("the old schema is still served")
	}
	for event := range watcher.ResultChan() {
		if event.Type == watch.Error {
			t.Errorf("the watch ends with %+v", event.Object)
		}
	}
	list, err := s.objects.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%v: %+v", err, list)
	}
	watcher = s.watch(t, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	s.create(t, "two")
	if event := <-watcher.ResultChan(); eventText(event) != "ADDED two" {
		t.Errorf("got %+v", event)
	}
}

func isAlone(context.Context) (bool, error) { return true, nil }

// TestEstablishedBySingleServersOnly: with other servers, and when they cannot be
// counted, a new CRD is left to upstream's controllers, and its age is shown to
// the handler, which keeps the first objects waiting.
func TestEstablishedBySingleServersOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		alone bool
		err   error
	}{"alone": {true, nil}, "with others": {false, nil}, "unknown": {false, errors.New("etcd is away")}} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t)
			count := func(context.Context) (bool, error) { return test.alone, test.err }
			s.registry.alone, s.front.alone = count, count
			created, err := s.registry.Create(definitionContext(t), newDefinition(t, unconverted), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := apiextensions.IsCRDConditionTrue(created.(*apiextensions.CustomResourceDefinition), apiextensions.Established); got != test.alone {
				t.Errorf("established: %t", got)
			}
			if delay := delayOf(count); delay == 0 != test.alone {
				t.Errorf("it is established after %s", delay)
			}
			crd := light("gears", "example.com", "1", 5)
			crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, LastTransitionTime: metav1.Now()}}
			s.front.catalog.wrote(crd)
			view, err := s.front.routingView(crd.Name)
			if err != nil || view.Status.Conditions[0].LastTransitionTime.IsZero() != test.alone {
				t.Errorf("the handler sees %+v, %v", view, err)
			}
		})
	}
}

func TestUnknownTypesAreLeftToTheDelegate(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	if _, err := s.objects.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if len(s.front.types) != 0 {
		t.Errorf("unknown types are remembered: %v", s.front.types)
	}
}
