// Package provider engages the control planes of a kube-hyper-mini server in a manager of
// sigs.k8s.io/multicluster-runtime: each ControlPlane is a cluster of its name.
package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/multicluster-runtime/pkg/clusters"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

var controlPlanes = schema.GroupVersionResource{Group: "planes.kube-hyper-mini.io",
	Version: "v1alpha1", Resource: "controlplanes"}

// workers engage control planes side by side: each wakes one.
const workers = 4

// Provider follows the ControlPlanes of a server. It implements multicluster.Provider and
// multicluster.ProviderRunnable.
type Provider struct {
	clusters.Clusters[cluster.Cluster]
	server  *rest.Config
	options []cluster.Option
}

// New returns a provider for the server with the configuration, whose user may update
// controlplanes/admin. The options are for the cluster of each control plane.
func New(server *rest.Config, options ...cluster.Option) *Provider {
	return &Provider{Clusters: clusters.New[cluster.Cluster](), server: server, options: options}
}

// Start implements multicluster.ProviderRunnable.
func (p *Provider) Start(ctx context.Context, aware multicluster.Aware) error {
	client, err := metadata.NewForConfig(p.server)
	if err != nil {
		return fmt.Errorf("follow the ControlPlanes: %w", err)
	}
	informer := metadatainformer.NewFilteredMetadataInformer(client, controlPlanes, "", 0,
		cache.Indexers{}, nil).Informer()
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute))
	defer queue.ShutDown()
	add := func(o any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
			queue.Add(key)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, DeleteFunc: add,
		UpdateFunc: func(_, updated any) { // of the status, mostly
			if updated.(metav1.Object).GetDeletionTimestamp() != nil {
				add(updated)
			}
		},
	}); err != nil {
		return fmt.Errorf("follow the ControlPlanes: %w", err)
	}
	for range workers {
		go func() {
			for p.work(ctx, queue, informer.GetStore(), aware) {
			}
		}()
	}
	informer.RunWithContext(ctx)
	return nil
}

// work brings one control plane up to date. It returns false when the queue is shut down.
func (p *Provider) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], known cache.Store,
	aware multicluster.Aware) bool {
	name, down := queue.Get()
	if down {
		return false
	}
	defer queue.Done(name)
	o, exists, err := known.GetByKey(name)
	switch {
	case err != nil:
	case !exists || o.(metav1.Object).GetDeletionTimestamp() != nil:
		p.Remove(multicluster.ClusterName(name))
	default:
		err = p.engage(ctx, name, aware)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "engaging a control plane failed, trying again", "controlPlane", name)
		queue.AddRateLimited(name)
		return true
	}
	queue.Forget(name)
	return true
}

// engage adds the control plane, unless it was added before.
func (p *Provider) engage(ctx context.Context, name string, aware multicluster.Aware) error {
	config := rest.CopyConfig(p.server)
	config.Host = strings.TrimSuffix(config.Host, "/") + "/clusters/" + name
	c, err := cluster.New(config, p.options...)
	if err != nil {
		return err
	}
	return p.AddOrReplace(ctx, multicluster.ClusterName(name), c, aware)
}
