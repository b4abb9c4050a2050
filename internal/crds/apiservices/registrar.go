package apiservices

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	client "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	queueName = "crd_apiservices"
	workers   = 2
	resync    = 5 * time.Minute // as upstream's informer
	minRetry  = 100 * time.Millisecond
	maxRetry  = time.Minute
)

// Source has the group versions that CRDs serve.
type Source interface {
	// Versions returns all of them, and VersionsOf those of a group, in no order.
	Versions() []schema.GroupVersion
	VersionsOf(group string) []schema.GroupVersion
	// OnVersions calls changed for each that may have changed.
	OnVersions(changed func(schema.GroupVersion)) (remove func())
	// AwaitAll waits until all CRDs have been read; it returns false if ctx ends
	// before.
	AwaitAll(ctx context.Context) bool
}

// Registrar maintains an APIService for each group version that CRDs serve. It does not
// change an APIService of that name without the label of managed ones.
type Registrar struct {
	source  Source
	client  client.APIServicesGetter
	managed cache.SharedIndexInformer
	loop    *reconcile.Loop[schema.GroupVersion]
	log     *slog.Logger
	logged  logging.Changes // failures, by the name of the APIService
}

// NewRegistrar returns a registrar that does not run yet. others is the informer of
// the APIServices without that label, clients are of the server itself.
func NewRegistrar(source Source, others cache.SharedIndexInformer, clients clientset.Interface,
	log *slog.Logger) (*Registrar, error) {
	r := &Registrar{source: source, client: clients.ApiregistrationV1(), log: log}
	r.loop = reconcile.New(reconcile.Config[schema.GroupVersion]{
		Name: queueName, Workers: workers, MinRetry: minRetry, MaxRetry: maxRetry, Handle: r.handle,
	})
	selector := labels.SelectorFromSet(kube.CRDAPIServices()).String()
	selectManaged := func(options *metav1.ListOptions) { options.LabelSelector = selector }
	r.managed = informers.NewFilteredAPIServiceInformer(clients, resync, cache.Indexers{}, selectManaged)
	if err := r.managed.SetTransform(comparedFields); err != nil {
		return nil, fmt.Errorf("follow APIServices: %w", err)
	}
	if _, err := r.managed.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: r.add, UpdateFunc: func(_, obj any) { r.add(obj) }, DeleteFunc: r.add,
	}); err != nil {
		return nil, fmt.Errorf("follow APIServices: %w", err)
	}
	// An APIService that was left alone and is deleted makes room for a managed one.
	if _, err := others.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: r.add}); err != nil {
		return nil, fmt.Errorf("follow other APIServices: %w", err)
	}
	return r, nil
}

// comparedFields drops what the registrar does not compare.
func comparedFields(obj any) (any, error) {
	if service, ok := obj.(*v1.APIService); ok {
		service.ManagedFields, service.Status = nil, v1.APIServiceStatus{}
	}
	return obj, nil
}

func (r *Registrar) add(obj any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		r.loop.Add(helper.APIServiceNameToGroupVersion(name))
	}
}

// Run keeps the APIServices until ctx ends, and returns when its goroutines
// have ended.
func (r *Registrar) Run(ctx context.Context) {
	defer r.source.OnVersions(r.loop.Add)()
	var informer sync.WaitGroup
	informer.Go(func() { r.managed.RunWithContext(ctx) })
	defer informer.Wait()
	if !r.source.AwaitAll(ctx) || !cache.WaitFor(ctx, "", r.managed.HasSyncedChecker()) {
		r.loop.Stop()
		return
	}
	for _, gv := range r.source.Versions() {
		r.loop.Add(gv)
	}
	r.loop.Run(ctx)
}

// handle corrects one APIService. If that has changed meanwhile, an event calls
// handle again.
func (r *Registrar) handle(ctx context.Context, gv schema.GroupVersion) reconcile.Result {
	err := r.register(ctx, gv)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		r.logged.Forget(kube.APIServiceName(gv))
		return reconcile.Done()
	case ctx.Err() == nil && r.logged.Changed(kube.APIServiceName(gv), err.Error()):
		r.log.Warn("writing the APIService of a custom resource failed, trying again", "apiservice",
			kube.APIServiceName(gv), "error", err)
	}
	return reconcile.Retry()
}

// register makes, corrects or deletes the APIService of a group version.
func (r *Registrar) register(ctx context.Context, gv schema.GroupVersion) error {
	obj, stored, err := r.managed.GetStore().GetByKey(kube.APIServiceName(gv))
	if err != nil {
		return fmt.Errorf("look up the APIService %s: %w", kube.APIServiceName(gv), err)
	}
	served := slices.Contains(r.source.VersionsOf(gv.Group), gv)
	switch {
	case !stored && served:
		_, err = r.client.APIServices().Create(ctx, kube.CRDAPIService(gv), metav1.CreateOptions{})
	case stored && !served:
		uid := obj.(*v1.APIService).UID
		err = r.client.APIServices().Delete(ctx, kube.APIServiceName(gv),
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))})
	case stored && !reflect.DeepEqual(obj.(*v1.APIService).Spec, kube.CRDAPIService(gv).Spec):
		corrected := obj.(*v1.APIService).DeepCopy()
		corrected.Spec = kube.CRDAPIService(gv).Spec
		_, err = r.client.APIServices().Update(ctx, corrected, metav1.UpdateOptions{})
	}
	return err
}
