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
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

const (
	// idleAfter is the time after its last request until a type is released.
	idleAfter = 5 * time.Minute
	// idleCheck is the interval of the search for idle types.
	idleCheck = 30 * time.Second
	// fetchTimeout bounds the reading of a CRD for upstream's handler, whose call has
	// no context.
	fetchTimeout = 30 * time.Second
)

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

	mu    sync.Mutex
	types map[string]*servedType // by the CRD's name
}

// servedType is a type with requests now or recently.
type servedType struct {
	users     int       // requests and watches
	lastUsed  time.Time // the end of the last one
	fetching  int       // the handler is reading the CRD
	built     *apiextensionsv1.CustomResourceDefinition
	releasing chan struct{}                             // closed when the type has been released
	view      *apiextensionsv1.CustomResourceDefinition // the routing view of viewOf
	viewOf    *apiextensionsv1.CustomResourceDefinition
}

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
	if err != nil {
		return // the client has gone
	}
	defer endUse()
	f.handler.ServeHTTP(w, r)
}

// beginUse counts a user of the type until endUse is called. It waits while the type is
// being released.
func (f *front) beginUse(ctx context.Context, name string) (endUse func(), err error) {
	for {
		f.mu.Lock()
		t := f.entry(name)
		releasing := t.releasing
		if releasing == nil {
			t.users++
			f.mu.Unlock()
			return func() { f.endUse(name, t) }, nil
		}
		f.mu.Unlock()
		select {
		case <-releasing:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (f *front) endUse(name string, t *servedType) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.users--
	t.lastUsed = time.Now()
	f.forget(name, t)
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
	if t.users == 0 && t.fetching == 0 && t.built == nil && t.releasing == nil && f.types[name] == t {
		delete(f.types, name)
	}
}

// fetch reads the CRD that the handler is about to build a type from.
func (f *front) fetch(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	f.mu.Lock()
	t := f.entry(name)
	t.fetching++
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	crd, err := f.definitions.get(ctx, name)
	f.mu.Lock()
	defer f.mu.Unlock()
	t.fetching--
	if err == nil {
		t.built = &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{UID: crd.UID, Generation: crd.Generation, ResourceVersion: crd.ResourceVersion},
			Status:     apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: crd.Status.AcceptedNames},
		}
	}
	f.forget(name, t)
	return crd, err
}

// routingView returns the CRD by which the handler routes a request.
func (f *front) routingView(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := f.catalog.get(name)
	if crd == nil {
		return nil, apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), name)
	}
	if f.tooNew(crd) {
		return customresources.RoutingView(crd, true), nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.types[name]
	if t == nil {
		return customresources.RoutingView(crd, false), nil
	}
	if t.viewOf != crd {
		t.view, t.viewOf = customresources.RoutingView(crd, false), crd
	}
	return t.view, nil
}

// tooNew reports whether other servers may not have received yet that the CRD is
// established. The handler delays the requests of such a CRD.
func (f *front) tooNew(crd *apiextensionsv1.CustomResourceDefinition) bool {
	established := apiextensionshelpers.FindCRDCondition(crd, apiextensionsv1.Established)
	if established == nil || time.Since(established.LastTransitionTime.Time) > customresources.SeenDelay {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	alone, err := f.alone(ctx)
	return err != nil || !alone
}

// changed is called after each change of the catalog.
func (f *front) changed(before, after *apiextensionsv1.CustomResourceDefinition) {
	crd := cmp.Or(before, after)
	f.mu.Lock()
	t := f.types[crd.Name]
	if t == nil || t.fetching == 0 && !outdated(t.built, after) {
		f.mu.Unlock()
		return
	}
	uids := map[types.UID]bool{crd.UID: true}
	if after != nil {
		uids[after.UID] = true
	}
	if t.built != nil {
		uids[t.built.UID] = true
	}
	t.built = nil
	f.forget(crd.Name, t)
	f.mu.Unlock()
	for uid := range uids {
		f.drop(uid)
	}
}

// outdated reports whether a type must be built again: upstream's handler compares
// specifications, whose changes the generation counts.
func outdated(built, now *apiextensionsv1.CustomResourceDefinition) bool {
	switch {
	case built == nil:
		return false
	case now == nil || built.UID != now.UID:
		return true
	}
	return version(built) < version(now) && (built.Generation != now.Generation ||
		!equality.Semantic.DeepEqual(built.Status.AcceptedNames, now.Status.AcceptedNames))
}

// drop has the handler drop what it has built for a CRD, if anything. Requests in
// progress end first; watches are ended. It waits for a type that is being built.
func (f *front) drop(uid types.UID) {
	customresources.Drop(f.events, uid)
}

// releaseIdle releases idle types until ctx ends.
func (f *front) releaseIdle(ctx context.Context) {
	ticker := time.NewTicker(idleCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			f.release(now.Add(-idleAfter))
		}
	}
}

// idle reports whether a type is built and its last request ended before the time. A type
// whose CRD is being deleted is not idle: upstream's finalizer deletes its objects, which
// are no requests. It is called with mu held.
func (f *front) idle(name string, t *servedType, before time.Time) bool {
	if crd := f.catalog.get(name); crd != nil && crd.DeletionTimestamp != nil {
		return false
	}
	return t.users == 0 && t.fetching == 0 && t.built != nil && t.releasing == nil && t.lastUsed.Before(before)
}

// release releases the types whose last request ended before the time, one after the
// other, and returns their number.
func (f *front) release(before time.Time) int {
	var names []string
	f.mu.Lock()
	for name, t := range f.types {
		if f.idle(name, t, before) {
			names = append(names, name)
		}
	}
	f.mu.Unlock()
	count := 0
	for _, name := range names {
		if f.releaseOne(name, before) {
			count++
		}
	}
	return count
}

// releaseOne releases a type if it is still idle. Requests of the type wait meanwhile.
func (f *front) releaseOne(name string, before time.Time) bool {
	f.mu.Lock()
	t := f.types[name]
	if t == nil || !f.idle(name, t, before) {
		f.mu.Unlock()
		return false
	}
	built := t.built
	t.releasing = make(chan struct{})
	f.mu.Unlock()
	f.drop(built.UID)
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.built == built { // the CRD may have changed, or its finalizer may have had the type built again
		t.built = nil
	}
	close(t.releasing)
	t.releasing = nil
	f.forget(name, t)
	return true
}

// GetCustomResourceListerCollectionDeleter implements [finalizer.CRClientGetter]. It
// does not build a type without objects.
func (f *front) GetCustomResourceListerCollectionDeleter(crd *apiextensionsv1.CustomResourceDefinition) (finalizer.ListerCollectionDeleter, error) {
	f.mu.Lock()
	t := f.types[crd.Name]
	idle := t == nil || t.users == 0 && t.fetching == 0 && t.built == nil
	if t != nil {
		t.lastUsed = time.Now()
	}
	f.mu.Unlock()
	if idle {
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		resource := schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Status.AcceptedNames.Plural}
		if populated, err := f.populated(ctx, resource); err == nil && !populated {
			return noObjects{}, nil
		}
	}
	client, err := f.handler.GetCustomResourceListerCollectionDeleter(customresources.WholeName(crd))
	if err != nil {
		return nil, fmt.Errorf("serve %s to delete its objects: %w", crd.Name, err)
	}
	return client, nil
}
