package customresources

import (
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Upstream fact: when the handler of custom resources gets CRDs from its lister
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.ServeHTTP
//   k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.getOrCreateServingInfoFor
//   k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.updateCustomResourceDefinition
//   k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.removeStorage_locked
//   k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.removeDeadStorage
//   k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.GetCustomResourceListerCollectionDeleter
// Why: it gets a CRD by the name in the path, to route, and then by the
//   name of what it got, to build the type, with all types locked. It builds a type
//   anew when its CRD changes, and drops one when its CRD is gone.
// Gain: a type that is not in use has no storage, no cache and no schemas in memory, which
//   take 0.8 MB and 19 goroutines of each type in use (bench, crds).
// Breaks: custom resources are not found, or served by an old version of their CRD.
//   Tests: TestChangedTypesAreBuiltAgain, TestConvertedTypesComeBack.

// SeenDelay is the time that other servers may need to learn that a CRD is established.
// The handler delays the requests of a CRD that is newer.
const SeenDelay = 2 * time.Second

// wholePrefix begins the names for which the lister of the handler returns whole CRDs.
const wholePrefix = "whole/"

// HandlerInformer is the informer of CRDs of the handler of custom resources.
type HandlerInformer struct {
	cache.SharedIndexInformer
	// View returns the [RoutingView] of a CRD, Whole a whole CRD, All all CRDs. Whole
	// must not wait: all types are locked meanwhile.
	View, Whole func(name string) (*apiextensionsv1.CustomResourceDefinition, error)
	All         func() []*apiextensionsv1.CustomResourceDefinition
	// Follow gets the event handler of the handler.
	Follow func(cache.ResourceEventHandler)
}

var _ informers.CustomResourceDefinitionInformer = HandlerInformer{}

// Informer implements [informers.CustomResourceDefinitionInformer].
func (h HandlerInformer) Informer() cache.SharedIndexInformer { return h }

// Lister implements [informers.CustomResourceDefinitionInformer].
func (h HandlerInformer) Lister() listers.CustomResourceDefinitionLister { return handlerLister{h} }

// AddEventHandler implements [cache.SharedInformer].
func (h HandlerInformer) AddEventHandler(
	handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h.Follow(handler)
	return nil, nil
}

// handlerLister is the lister that the handler has.
type handlerLister struct{ informer HandlerInformer }

// Get returns the CRD to route by, or the whole CRD: see wholePrefix.
func (l handlerLister) Get(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	if whole, ok := strings.CutPrefix(name, wholePrefix); ok {
		return l.informer.Whole(whole)
	}
	return l.informer.View(name)
}

// List is called when a CRD has been deleted. The handler gets no such event: see [Drop].
func (l handlerLister) List(labels.Selector) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return l.informer.All(), nil
}

// RoutingView copies a CRD for the handler, which routes a request by it and then gets the
// whole CRD by its name. With age false it drops the times of the conditions, so that the handler does not
// delay the request.
func RoutingView(crd *apiextensionsv1.CustomResourceDefinition, age bool) *apiextensionsv1.CustomResourceDefinition {
	view := *crd
	view.Name = wholePrefix + crd.Name
	if age {
		return &view
	}
	view.Status.Conditions = slices.Clone(crd.Status.Conditions)
	for i := range view.Status.Conditions {
		view.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return &view
}

// WholeName has the name by which the handler gets the whole CRD.
func WholeName(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{UID: crd.UID,
		Name: wholePrefix + crd.Name}}
}

// Drop has the handler drop what it has built for a CRD, if anything: an update to an empty
// specification differs from every other specification.
func Drop(handler cache.ResourceEventHandler, uid types.UID) {
	empty := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	handler.OnUpdate(empty, empty)
}

// SameServing reports whether the handler keeps what it has built for a CRD. It compares
// specifications, whose changes the generation counts; a deletion does not increase that.
func SameServing(before, after *apiextensionsv1.CustomResourceDefinition) bool {
	return before.UID == after.UID && before.Generation == after.Generation &&
		equality.Semantic.DeepEqual(before.Status.AcceptedNames, after.Status.AcceptedNames)
}
