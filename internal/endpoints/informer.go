package endpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// probePeriod is the time between two probes of an object that did not change.
const probePeriod = 30 * time.Second

// failuresBeforeLog is the number of failures in a row before a missing type is logged:
// discovery has the type some time after its definition. [logging.Changes] would log the
// first one.
const failuresBeforeLog = 2

// Run follows the ServiceEndpoint objects and writes their status until ctx ends. The
// type need not be served yet. If it is deleted later, Run creates it again and logs
// that. dial connects to the targets. After an error nothing is followed. Call it once.
func (r *Resolver) Run(ctx context.Context, client *rest.Config, dial utilnet.DialFunc, log *slog.Logger) error {
	client = rest.CopyConfig(client)
	client.QPS = -1
	client = rest.AddUserAgent(client, "service-endpoints")
	dynamicClient, err := dynamic.NewForConfig(client)
	if err != nil {
		return fmt.Errorf("make the client that follows ServiceEndpoints: %w", err)
	}
	if err := awaitServed(ctx, client, log); err != nil {
		return err
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(dynamicClient, serviceEndpoints, "",
		probePeriod, cache.Indexers{}, nil)
	if err := informer.Informer().SetWatchErrorHandlerWithContext(reinstall(dynamicClient, log)); err != nil {
		return fmt.Errorf("follow ServiceEndpoints: %w", err)
	}
	prober := &prober{
		resolver: r, client: dynamicClient, dial: dial, log: log, store: informer.Informer().GetStore(),
	}
	prober.loop = reconcile.New(reconcile.Config[Reference]{
		Name: "ServiceEndpoints", Workers: probeWorkers, MinRetry: minReprobe, MaxRetry: maxReprobe, Handle: prober.handle,
	})
	r.OnChange(prober.loop.Add)
	handler, err := informer.Informer().AddEventHandler(r.handler(prober.loop))
	if err != nil {
		return fmt.Errorf("follow ServiceEndpoints: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.Informer().RunWithContext(ctx) })
	running.Go(func() { prober.loop.Run(ctx) })
	if cache.WaitFor(ctx, "", handler.HasSyncedChecker()) {
		close(r.synced)
	}
	<-ctx.Done()
	return nil
}

// reinstall creates the type again after `kubectl delete crd --all` and the like. The
// informer repeats its list with increasing delays.
func reinstall(client dynamic.Interface, log *slog.Logger) cache.WatchErrorHandlerWithContext {
	failures := 0 // the informer calls this from one goroutine
	return func(ctx context.Context, reflector *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) {
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
			return
		}
		created, createErr := write(ctx, client, log)
		if created {
			failures = 0
			log.Info("the definition of ServiceEndpoint was deleted and is created again; its objects are lost")
			return
		}
		if failures++; failures != failuresBeforeLog || ctx.Err() != nil {
			return
		}
		if createErr != nil {
			log.Warn("the definition of ServiceEndpoint was deleted and cannot be created again: references to Services are "+
				"not resolved", "error", createErr)
		} else {
			log.Warn("ServiceEndpoints are not served, though they are defined: see the conditions of crd/"+
				definitionName, "error", err)
		}
	}
}

// handler applies objects to the resolver and queues them for the prober.
func (r *Resolver) handler(loop *reconcile.Loop[Reference]) cache.ResourceEventHandler {
	apply := func(obj any) {
		if object, ok := obj.(*unstructured.Unstructured); ok {
			loop.Add(r.setTargets(object))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: apply,
		UpdateFunc: func(previous, current any) {
			before, okBefore := previous.(*unstructured.Unstructured)
			after, okAfter := current.(*unstructured.Unstructured)
			if okBefore && okAfter && before.GetResourceVersion() != after.GetResourceVersion() &&
				reflect.DeepEqual(before.Object["spec"], after.Object["spec"]) {
				return // the status, which the prober writes
			}
			apply(current)
		},
		DeleteFunc: func(obj any) {
			if object, ok := reconcile.Deleted[*unstructured.Unstructured](obj); ok {
				ref := Reference{object.GetNamespace(), object.GetName()}
				r.set(ref, nil)
				r.dropState(ref)
			}
		},
	}
}

// setTargets sets the targets of an object in the resolver.
func (r *Resolver) setTargets(object *unstructured.Unstructured) Reference {
	ref, targets, err := targetsOf(object)
	if err != nil {
		klog.ErrorS(err, "A ServiceEndpoint is not used", "serviceEndpoint", ref)
	}
	r.set(ref, targets)
	return ref
}

// targetsOf returns the targets of an object. An object with an invalid target, which
// the schema rejects, has none.
func targetsOf(object *unstructured.Unstructured) (Reference, []string, error) {
	ref := Reference{object.GetNamespace(), object.GetName()}
	targets, _, err := unstructured.NestedStringSlice(object.Object, "spec", "targets")
	if err != nil {
		return ref, nil, err
	}
	list, err := addresses(targets)
	if err == nil && len(list) == 0 {
		err = errors.New("it has no targets")
	}
	return ref, list, err
}
