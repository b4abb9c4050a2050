package aggregation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/status/metrics"

	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// availabilityWorkers is more than upstream's 5: the check of a server that drops
	// packets occupies a worker for seconds and must not delay the others.
	availabilityWorkers = 20
	// minRecheck and maxRecheck bound the wait before a failed server is checked again.
	// Upstream's bounds are 5 ms and 30 s. Here only a check detects that a server is
	// back, and its requests are refused until then.
	minRecheck = 50 * time.Millisecond
	maxRecheck = 2 * time.Second
)

// Availability sets the Available condition of remote APIServices. It replaces
// AvailableConditionController of k8s.io/kube-aggregator/pkg/controllers/status/remote,
// which needs Services and EndpointSlices. Its semantics are upstream's: it requests
// the discovery path of the group version as system:kube-aggregator; upstream's local
// controller handles local APIServices; a status is written only if it changes.
type Availability struct {
	caller  *Caller
	log     *slog.Logger
	client  apiregistrationclient.APIServicesGetter
	lister  listers.APIServiceLister
	synced  cache.InformerSynced
	loop    *reconcile.Loop[string]
	metrics *metrics.Metrics
	logged  logging.Changes // reasons, by the name of the APIService
}

// NewAvailability prepares the controller. config is for a client of this process, services are
// the aggregator's. The resolver of caller reports changes, after which APIServices are checked
// again. Call it before the informers start.
func NewAvailability(caller *Caller, config *rest.Config, services informers.APIServiceInformer,
	log *slog.Logger) (*Availability, error) {
	client, err := clientset.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "remote-availability"))
	if err != nil {
		return nil, fmt.Errorf("make the client that writes the status of APIServices: %w", err)
	}
	a := &Availability{
		caller: caller, log: log, client: client.ApiregistrationV1(), lister: services.Lister(), metrics: metrics.New(),
	}
	a.loop = reconcile.New(reconcile.Config[string]{
		Name: "RemoteAvailabilityController", Workers: availabilityWorkers, MinRetry: minRecheck,
		MaxRetry: maxRecheck, Handle: a.handle,
	})
	handler, err := services.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.enqueue,
		UpdateFunc: func(_, current any) { a.enqueue(current) },
		DeleteFunc: a.enqueue,
	}, kube.RecheckPeriod)
	if err != nil {
		return nil, fmt.Errorf("watch APIServices: %w", err)
	}
	a.synced = handler.HasSynced
	caller.resolver.OnChange(a.recheck)
	return a, nil
}

// Metrics are upstream's for availability, of the remote APIServices.
func (a *Availability) Metrics() *metrics.Metrics { return a.metrics }

func (a *Availability) enqueue(obj any) {
	if service, ok := reconcile.Deleted[*apiregistrationv1.APIService](obj); ok {
		a.loop.Add(service.Name)
	}
}

// recheck checks the APIServices behind a reference again. There are few remote ones,
// and it is called after changes only.
func (a *Availability) recheck(ref endpoints.Reference) {
	services, err := a.lister.List(labels.Everything())
	if err != nil {
		return // the cache does not fail
	}
	for _, service := range services {
		if service.Spec.Service != nil && reference(service) == ref {
			a.loop.Add(service.Name)
		}
	}
}

// Run checks until ctx ends.
func (a *Availability) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), a.synced) {
		a.loop.Stop()
		return
	}
	a.loop.Run(ctx)
}

func (a *Availability) handle(ctx context.Context, name string) reconcile.Result {
	available, err := a.sync(ctx, name)
	if err == nil && available {
		return reconcile.Done()
	}
	if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
		utilruntime.HandleErrorWithContext(ctx, err, "Updating the availability of an APIService failed", "APIService", name)
	}
	return reconcile.Retry()
}

// sync checks one APIService and writes the result. It returns false if the APIService
// must be checked again soon.
func (a *Availability) sync(ctx context.Context, name string) (bool, error) {
	original, err := a.lister.Get(name)
	if apierrors.IsNotFound(err) {
		a.forget(name)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if original.Spec.Service == nil {
		a.forget(name) // the local controller's
		return true, nil
	}
	condition := a.check(ctx, original)
	if ctx.Err() != nil {
		return true, nil
	}
	condition.Type, condition.LastTransitionTime = apiregistrationv1.Available, metav1.Now()
	updated := original.DeepCopy()
	helper.SetAPIServiceCondition(updated, condition)
	a.metrics.SetUnavailableGauge(updated)
	a.logChange(original, condition)
	available := condition.Status == apiregistrationv1.ConditionTrue
	if equality.Semantic.DeepEqual(original.Status, updated.Status) {
		return available, nil
	}
	if _, err := a.client.APIServices().UpdateStatus(ctx, updated, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("write the status of APIService %s: %w", name, err)
	}
	a.metrics.SetUnavailableCounter(original, updated)
	return available, nil
}

func (a *Availability) forget(name string) {
	a.metrics.ForgetAPIService(name)
	a.logged.Forget(name)
}

// logChange logs what a check found if that differs from the check before.
func (a *Availability) logChange(service *apiregistrationv1.APIService, found apiregistrationv1.APIServiceCondition) {
	previous, known := a.logged.Swap(service.Name, found.Reason)
	if !known && helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
		previous = kube.ReasonPassed // an earlier process has logged it
	}
	switch {
	case previous == found.Reason:
	case found.Status == apiregistrationv1.ConditionTrue:
		a.log.Info("aggregated API is available", "apiService", service.Name)
	default:
		a.log.Warn("aggregated API is not available", "apiService", service.Name, "reason",
			found.Reason, "message", found.Message)
	}
}

var errSlow = errors.New("no answer")

// check requests the discovery document of the group version from the server.
func (a *Availability) check(ctx context.Context,
	service *apiregistrationv1.APIService) apiregistrationv1.APIServiceCondition {
	err := a.tryDiscovery(ctx, service)
	if err == nil {
		return kube.PassedCondition()
	}
	return apiregistrationv1.APIServiceCondition{Status: apiregistrationv1.ConditionFalse,
		Reason: reason(err), Message: err.Error()}
}

// tryDiscovery requests the document, and a second time on a new connection if the first
// one may have failed because of the connection.
func (a *Availability) tryDiscovery(ctx context.Context, service *apiregistrationv1.APIService) error {
	client, err := a.caller.client(service)
	if err != nil {
		return err
	}
	client.Timeout = kube.CheckTimeout
	err = a.discover(ctx, client, service)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The connection may lead to a replica that has ended. Upstream sends five
	// requests, so that one of them gets another connection.
	utilnet.CloseIdleConnectionsFor(client.Transport)
	if ofReference(err) != nil || errors.Is(err, errSlow) {
		return err // not because of an old connection, or after a long wait
	}
	return a.discover(ctx, client, service)
}

// discover sends one request.
func (a *Availability) discover(ctx context.Context, client *http.Client, service *apiregistrationv1.APIService) error {
	path, ref := kube.DiscoveryPath(service), reference(service)
	request, err := a.caller.request(ctx, service, path, kube.DiscoveryUser, user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return describe(kube.CheckTimeout, ref, path, err)
	}
	_ = response.Body.Close() // only the status counts
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("service %s answers %s with %s", ref, path, response.Status)
	}
	return nil
}

// describe describes the error without the host of the resolver, which is internal, and
// without the local port, which changes each time: a condition must not change if
// nothing has changed. within is the timeout of the request.
func describe(within time.Duration, ref endpoints.Reference, path string, err error) error {
	if known := ofReference(err); known != nil {
		return known
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return fmt.Errorf("request %s of service %s: %w within %s", path, ref, errSlow, within)
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // the URL is above
	}
	return fmt.Errorf("request %s of service %s: %w", path, ref, endpoints.WithoutSource(err))
}

// ofReference returns the error of the resolver in err, that a reference has no targets or that
// none accepts a connection; nil if there is none.
func ofReference(err error) error {
	if unresolved, ok := errors.AsType[*endpoints.UnresolvedError](err); ok {
		return unresolved
	}
	if unreachable, ok := errors.AsType[*endpoints.ConnectError](err); ok {
		return unreachable
	}
	return nil
}

// reason returns that of the condition for what a check failed with.
func reason(err error) string {
	if _, unresolved := errors.AsType[*endpoints.UnresolvedError](err); unresolved {
		return kube.ReasonNotFound
	}
	return kube.ReasonDiscovery
}
