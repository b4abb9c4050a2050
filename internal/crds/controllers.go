package crds

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	client "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/apiapproval"
	"k8s.io/apiextensions-apiserver/pkg/controller/establish"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema"
	"k8s.io/apiextensions-apiserver/pkg/controller/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Upstream fact: what the controllers of CRDs read and write
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apiserver.completedConfig.New
//   k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.updateCustomResourceDefinition
//   k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.statusStrategy.PrepareForUpdate
//   k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema.calculateCondition
//   k8s.io/apiextensions-apiserver/pkg/controller/finalizer.CRDFinalizer.sync
// Why: the controllers get CRDs without schemas. Only the controller of
//   structural schemas reads schemas. The status subresource also takes metadata,
//   of which light CRDs lack a part.
// Gain: one informer without schemas for all controllers (bench, crds).
// Breaks: a controller that reads a schema finds none, or a status update removes
//   annotations.

const (
	// workers is the number of workers that upstream gives to each controller that has
	// several.
	workers = 5
	// establishDelay is the time between the acceptance of a CRD's names and its
	// establishment with several servers, so that all of them see the names (crdHandler
	// of k8s.io/apiextensions-apiserver/pkg/apiserver).
	establishDelay = 5 * time.Second
)

// controllers are upstream's, over light CRDs.
type controllers struct{ run []func(context.Context) }

func (s *Server) newControllers(crds client.CustomResourceDefinitionsGetter, alone func(context.Context) (bool, error)) (*controllers, *establish.EstablishingController, error) {
	crds = statusClient{CustomResourceDefinitionsGetter: crds, definitions: s.definitions}
	informer := s.informer
	naming := status.NewNamingConditionController(klog.TODO(), informer, crds)
	establishing := establish.NewEstablishingController(informer, crds)
	approval := apiapproval.NewKubernetesAPIApprovalPolicyConformantConditionController(informer, crds)
	nonStructural := nonstructuralschema.NewConditionController(maybeNonStructural{SharedIndexInformer: informer.Informer(), definitions: s.definitions}, crds)
	finalizing := finalizer.NewCRDFinalizer(informer, crds, s.front)

	queue := func(obj any) {
		crd := obj.(*apiextensionsv1.CustomResourceDefinition)
		if apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted) && !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			establishing.QueueCRD(crd.Name, delayOf(alone))
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: queue, UpdateFunc: func(_, obj any) { queue(obj) }})
	if err != nil {
		return nil, nil, fmt.Errorf("follow CustomResourceDefinitions to establish them: %w", err)
	}
	arrivals := newArrivals(slog.Default(), s.catalog.size)
	s.catalog.listen(arrivals.changed)
	return &controllers{run: []func(context.Context){
		arrivals.run,
		naming.RunWithContext,
		establishing.RunWithContext,
		func(ctx context.Context) { nonStructural.RunWithContext(workers, ctx) },
		func(ctx context.Context) { approval.RunWithContext(workers, ctx) },
		func(ctx context.Context) { finalizing.RunWithContext(workers, ctx) },
		s.front.releaseIdle,
		s.stores.count,
		func(ctx context.Context) { dropDeleted(ctx, s.catalog, s.definitions.getMetadata) },
	}}, establishing, nil
}

// delayOf returns establishDelay, or 0 for a single server.
func delayOf(alone func(context.Context) (bool, error)) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	if isAlone, err := alone(ctx); err == nil && isAlone {
		return 0
	}
	return establishDelay
}

// statusClient writes the status of light CRDs. The status subresource also takes the
// metadata of the request (statusStrategy.PrepareForUpdate of
// k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition), so it adds the
// metadata that light CRDs lack.
type statusClient struct {
	client.CustomResourceDefinitionsGetter
	definitions *definitions
}

// CustomResourceDefinitions implements [client.CustomResourceDefinitionsGetter].
func (c statusClient) CustomResourceDefinitions() client.CustomResourceDefinitionInterface {
	return statusWriter{c.CustomResourceDefinitionsGetter.CustomResourceDefinitions(), c.definitions}
}

type statusWriter struct {
	client.CustomResourceDefinitionInterface
	definitions *definitions
}

// UpdateStatus implements [client.CustomResourceDefinitionInterface].
func (w statusWriter) UpdateStatus(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, options metav1.UpdateOptions) (*apiextensionsv1.CustomResourceDefinition, error) {
	stored, err := w.definitions.getMetadata(ctx, crd.Name)
	if err != nil {
		return nil, err
	}
	if stored.UID != crd.UID || stored.ResourceVersion != crd.ResourceVersion {
		return nil, apierrors.NewConflict(apiextensionsv1.Resource("customresourcedefinitions"), crd.Name,
			fmt.Errorf("the CustomResourceDefinition has changed since resource version %s", crd.ResourceVersion))
	}
	stored.Finalizers, stored.Status = crd.Finalizers, crd.Status
	updated, err := w.CustomResourceDefinitionInterface.UpdateStatus(ctx, stored, options)
	if err != nil {
		return nil, err
	}
	lighten(updated)
	return updated, nil
}

// maybeNonStructural is an informer of the CRDs whose schemas may not be
// structural: those that keep unknown fields, which could be created before
// apiextensions.k8s.io/v1, and those that are known not to be. Validation keeps
// others structural. Its lister reads whole CRDs.
type maybeNonStructural struct {
	cache.SharedIndexInformer
	definitions *definitions
}

var _ informers.CustomResourceDefinitionInformer = maybeNonStructural{}

// Informer implements [informers.CustomResourceDefinitionInformer].
func (m maybeNonStructural) Informer() cache.SharedIndexInformer { return m }

// Lister implements [informers.CustomResourceDefinitionInformer].
func (m maybeNonStructural) Lister() listers.CustomResourceDefinitionLister {
	return wholeLister{listers.NewCustomResourceDefinitionLister(m.GetIndexer()), m.definitions}
}

// AddEventHandler implements [cache.SharedInformer].
func (m maybeNonStructural) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return m.SharedIndexInformer.AddEventHandler(cache.FilteringResourceEventHandler{Handler: handler, FilterFunc: func(obj any) bool {
		crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		return ok && (crd.Spec.PreserveUnknownFields || apiextensionshelpers.FindCRDCondition(crd, apiextensionsv1.NonStructuralSchema) != nil)
	}})
}

// wholeLister gets whole CRDs from the store.
type wholeLister struct {
	listers.CustomResourceDefinitionLister
	definitions *definitions
}

// Get implements [listers.CustomResourceDefinitionLister].
func (l wholeLister) Get(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	return l.definitions.get(ctx, name)
}
