package crds

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// fetchTimeout bounds the reading of a CRD.
const fetchTimeout = 30 * time.Second

// front passes requests to upstream's handler. It is the handler's source of CRDs,
// counts the requests of each type, and has the handler drop what it has built for a
// type that is idle or has changed. It is safe for concurrent use.
type front struct {
	catalog     *catalog
	definitions *definitions
	discovery   http.Handler
	delegate    http.Handler
	// alone reports whether no other server writes CRDs at this moment.
	alone func(context.Context) (bool, error)
	// populated reports whether objects of a resource are stored.
	populated func(context.Context, schema.GroupResource) (bool, error)

	// empty answers lists and watches of types without objects; nil leaves them
	// to the handler.
	empty *emptyTypes

	handler customresources.Handler
	// events is the handler's receiver of changes; the handler sets it.
	events cache.ResourceEventHandler

	// changedTypes wakes releaseIdle after a change of a CRD whose type is loaded. The handler
	// drops it there: a drop waits for types that are being built, and the catalog waits for
	// its listeners.
	changedTypes chan struct{}

	// idleBytes bounds the estimated memory of types without requests; 0 is without bound.
	idleBytes int64

	mu    sync.Mutex
	types map[string]*servedType // by the CRD's name
}

// servedType is a type with requests now or recently. While it has users, it has a CRD.
type servedType struct {
	users    int           // requests and watches
	lastUsed time.Time     // the end of the last one
	busy     chan struct{} // closed when the type has been loaded or released
	// whole is the CRD that the handler builds the type from; nil if it is not loaded.
	whole    *apiextensionsv1.CustomResourceDefinition
	outdated bool  // whole has changed since
	size     int64 // estimated memory of what the handler builds from whole
}

// loaded reports whether the handler has, or can build, the type as its CRD is now.
func (t *servedType) loaded() bool { return t.whole != nil && !t.outdated }

// ServeHTTP implements [http.Handler].
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	switch {
	case !ok:
		f.handler.ServeHTTP(w, r) // answers with the error
		return
	case !info.IsResourceRequest:
		f.discovery.ServeHTTP(w, r)
		return
	}
	name := info.Resource + "." + info.APIGroup
	crd := f.catalog.get(name)
	if crd == nil {
		f.delegate.ServeHTTP(w, r)
		return
	}
	if f.empty != nil && f.empty.serve(w, r, info, crd) {
		return
	}
	endUse, err := f.beginUse(r.Context(), name)
	switch {
	case err != nil && r.Context().Err() != nil:
		return // the client has gone
	case apierrors.IsNotFound(err):
		f.delegate.ServeHTTP(w, r)
		return
	case err != nil:
		version := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
		responsewriters.ErrorNegotiated(err, apiextensionsapiserver.Codecs, version, w, r)
		return
	}
	defer endUse()
	f.handler.ServeHTTP(w, r)
}

// beginUse counts a user of the type until endUse is called. It waits while the type is
// being released, and reads its CRD if the type is not loaded. The error for an unknown
// name is an API status.
func (f *front) beginUse(ctx context.Context, name string) (endUse func(), err error) {
	for {
		f.mu.Lock()
		t := f.entry(name)
		busy := t.busy
		switch {
		case busy != nil:
			f.mu.Unlock()
		case t.loaded():
			t.users++
			f.mu.Unlock()
			return func() { f.endUse(name, t) }, nil
		default:
			t.busy = make(chan struct{})
			f.mu.Unlock()
			if err := f.load(ctx, name, t); err != nil {
				return nil, err
			}
			f.releaseOver()
			return func() { f.endUse(name, t) }, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// load reads the CRD of a type, which the caller has made busy, and counts a user.
// Upstream's handler reads it with all types locked: a read that hangs would delay them
// all.
func (f *front) load(ctx context.Context, name string, t *servedType) error {
	defer f.endBusy(name, t)
	reading, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	crd, err := f.definitions.get(reading, name)
	if err != nil && ctx.Err() == nil && reading.Err() != nil {
		text := fmt.Sprintf("read CustomResourceDefinition %s: etcd has not answered for %s, try again", name, fetchTimeout)
		err = apierrors.NewTimeoutError(text, 1)
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	before, now := t.whole, f.catalog.get(name)
	t.size = int64(crd.Size()) * builtPerByte
	t.whole, t.outdated = crd, now != nil && outdated(crd, now)
	t.users++
	f.mu.Unlock()
	if before != nil { // a slower request may have had the type built from it again
		f.drop(before.UID)
	}
	return nil
}

// endBusy lets the requests of a type continue.
func (f *front) endBusy(name string, t *servedType) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(t.busy)
	t.busy = nil
	f.forget(name, t)
}

func (f *front) endUse(name string, t *servedType) {
	f.mu.Lock()
	t.users--
	t.lastUsed = time.Now()
	if t.users > 0 || t.busy != nil || !t.outdated {
		f.mu.Unlock()
		return
	}
	t.busy = make(chan struct{})
	f.mu.Unlock()
	f.unload(name, t)
}

// unload has the handler drop a type, which the caller has made busy.
func (f *front) unload(name string, t *servedType) {
	defer f.endBusy(name, t)
	f.drop(t.whole.UID)
	f.mu.Lock()
	defer f.mu.Unlock()
	t.whole, t.outdated = nil, false
}

// entry is called with mu held.
func (f *front) entry(name string) *servedType {
	t := f.types[name]
	if t == nil {
		t = &servedType{lastUsed: time.Now()}
		f.types[name] = t
	}
	return t
}

// forget deletes an entry without content. It is called with mu held.
func (f *front) forget(name string, t *servedType) {
	if t.users == 0 && t.whole == nil && t.busy == nil && f.types[name] == t {
		delete(f.types, name)
	}
}

// source returns the CRD that the handler is about to build a type from.
func (f *front) source(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.types[name]; t != nil && t.whole != nil {
		return t.whole, nil
	}
	return nil, apierrors.NewInternalError(fmt.Errorf("build the type %s: its CustomResourceDefinition is not loaded",
		name))
}

// routingView returns the CRD by which the handler routes a request.
func (f *front) routingView(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := f.catalog.get(name)
	if crd == nil {
		return nil, apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), name)
	}
	return customresources.RoutingView(crd, f.tooNew(crd)), nil
}

// tooNew reports whether other servers may not have received yet that the CRD is
// established. The handler delays the requests of such a CRD.
func (f *front) tooNew(crd *apiextensionsv1.CustomResourceDefinition) bool {
	established := apiextensionshelpers.FindCRDCondition(crd, apiextensionsv1.Established)
	if established == nil || time.Since(established.LastTransitionTime.Time) > customresources.SeenDelay {
		return false
	}
	return !certainlyAlone(f.alone)
}

// certainlyAlone returns the result of alone; false after an error.
func certainlyAlone(alone func(context.Context) (bool, error)) bool {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	is, err := alone(ctx)
	return err == nil && is
}

// changed is called after each change of the catalog. It does not wait for the handler.
func (f *front) changed(before, after *apiextensionsv1.CustomResourceDefinition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.types[cmp.Or(before, after).Name]
	if t == nil || t.whole == nil || !outdated(t.whole, after) {
		return
	}
	t.outdated = true
	select {
	case f.changedTypes <- struct{}{}:
	default: // releaseIdle is woken already
	}
}

// dropOutdated has the handler drop the types whose CRDs have changed. The next request of a
// type that has users loads it again.
func (f *front) dropOutdated() {
	used, unused := map[string]types.UID{}, map[string]*servedType{}
	f.mu.Lock()
	for name, t := range f.types {
		switch {
		case !t.outdated:
		case t.users > 0 || t.busy != nil:
			used[name] = t.whole.UID
		default:
			t.busy = make(chan struct{})
			unused[name] = t
		}
	}
	f.mu.Unlock()
	for _, uid := range used {
		f.drop(uid)
	}
	for name, t := range unused {
		f.unload(name, t)
	}
}

// outdated reports whether a type must be built again.
func outdated(built, now *apiextensionsv1.CustomResourceDefinition) bool {
	return now == nil || version(built) < version(now) && !customresources.SameServing(built, now)
}

// drop has the handler drop what it has built for a CRD, if anything. Requests in
// progress end first; watches are ended. It waits for a type that is being built.
func (f *front) drop(uid types.UID) {
	customresources.Drop(f.events, uid)
}

// GetCustomResourceListerCollectionDeleter implements [finalizer.CRClientGetter]. It
// does not build a type without objects.
func (f *front) GetCustomResourceListerCollectionDeleter(
	crd *apiextensionsv1.CustomResourceDefinition) (finalizer.ListerCollectionDeleter, error) {
	f.mu.Lock()
	t := f.types[crd.Name]
	idle := t == nil || t.users == 0 && t.busy == nil && t.whole == nil
	if t != nil {
		t.lastUsed = time.Now()
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	if idle {
		resource := schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Status.AcceptedNames.Plural}
		if populated, err := f.populated(ctx, resource); err == nil && !populated {
			return noObjects{}, nil
		}
	}
	endUse, err := f.beginUse(ctx, crd.Name)
	if err != nil {
		return nil, fmt.Errorf("read %s to delete its objects: %w", crd.Name, err)
	}
	defer endUse()
	client, err := f.handler.GetCustomResourceListerCollectionDeleter(customresources.WholeName(crd))
	if err != nil {
		return nil, fmt.Errorf("serve %s to delete its objects: %w", crd.Name, err)
	}
	return client, nil
}

// informer is the informer of upstream's handler: its lister and its events are those of
// the front.
func (f *front) informer() customresources.HandlerInformer {
	return customresources.HandlerInformer{
		View: f.routingView, Whole: f.source, All: f.catalog.all,
		Follow: func(handler cache.ResourceEventHandler) { f.events = handler },
	}
}

// noObjects is the storage of a type that has no objects.
type noObjects struct{}

// NewList implements [rest.Lister].
func (noObjects) NewList() runtime.Object { return &unstructured.UnstructuredList{} }

// List implements [rest.Lister].
func (noObjects) List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
	return &unstructured.UnstructuredList{}, nil
}

// ConvertToTable implements [rest.TableConvertor].
func (noObjects) ConvertToTable(context.Context, runtime.Object, runtime.Object) (*metav1.Table, error) {
	return &metav1.Table{}, nil
}

// DeleteCollection implements [rest.CollectionDeleter].
func (noObjects) DeleteCollection(context.Context, rest.ValidateObjectFunc, *metav1.DeleteOptions,
	*metainternalversion.ListOptions) (runtime.Object, error) {
	return &unstructured.UnstructuredList{}, nil
}
