package kube

import (
	"context"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
)

// countedGetter has the options of a server: its stores count their objects.
type countedGetter struct{}

// GetRESTOptions implements [generic.RESTOptionsGetter].
func (countedGetter) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:         &storagebackend.ConfigForResource{GroupResource: resource},
		ResourcePrefix:        resource.Resource,
		CountMetricPollPeriod: time.Minute,
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return emptyStore{}, func() {}, nil
		},
	}, nil
}

// emptyStore is a store that only counts.
type emptyStore struct{ storage.Interface }

// Stats implements [storage.Interface].
func (emptyStore) Stats(context.Context) (storage.Stats, error) { return storage.Stats{}, nil }

// TestPolicyStoresDoNotCount: the counts of the served stores stay in the metrics.
func TestPolicyStoresDoNotCount(t *testing.T) {
	metrics.Register()
	const served = 71
	resource := rbacv1.Resource("clusterroles")
	metrics.UpdateStoreStats(resource, storage.Stats{ObjectCount: served}, nil)
	t.Cleanup(func() { metrics.DeleteStoreStats(resource) })
	enabled := serverstorage.NewResourceConfig()
	enabled.EnableVersions(rbacv1.SchemeGroupVersion)
	stores, err := NewPolicyStores(countedGetter{}, enabled)
	if err != nil {
		t.Fatal(err)
	}
	stores.Destroy()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "apiserver_resource_objects" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetValue() == resource.Resource && metric.GetGauge().GetValue() == served {
					return
				}
			}
		}
	}
	t.Error("the metric of the served store is gone")
}
