package storage

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// ObjectMetrics are the numbers and sizes of the objects of each resource. They have the names
// and labels of upstream's (k8s.io/apiserver/pkg/storage/etcd3/metrics.UpdateStoreStats), which
// belong to the process: there, the numbers of one server replace those of another. It is safe
// for concurrent use.
type ObjectMetrics struct{ last sync.Map } // storage.Stats by schema.GroupResource, with -1 objects after an error

const (
	storageObjects  = "apiserver_storage_objects"
	resourceObjects = "apiserver_resource_objects"
	resourceSize    = "apiserver_resource_size_estimate_bytes"
)

// IsObjectMetric reports whether the metric of that name is one of [ObjectMetrics].
func IsObjectMetric(name string) bool {
	return name == storageObjects || name == resourceObjects || name == resourceSize
}

var (
	objectsByName = prometheus.NewDesc(storageObjects,
		"Deprecated, use apiserver_resource_objects. Objects of a resource at the last count, -1 after an error.",
		[]string{"resource"}, nil)
	objectsByResource = prometheus.NewDesc(resourceObjects,
		"Objects of a resource at the last count, -1 after an error.", []string{"group", "resource"}, nil)
	objectSizes = prometheus.NewDesc(resourceSize,
		"Estimated size of the stored objects of a resource at the last count, -1 if it is not known.",
		[]string{"group", "resource"}, nil)
)

// Describe implements [prometheus.Collector].
func (m *ObjectMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- objectsByName
	descriptions <- objectsByResource
	descriptions <- objectSizes
}

// Collect implements [prometheus.Collector].
func (m *ObjectMetrics) Collect(metrics chan<- prometheus.Metric) {
	m.last.Range(func(key, value any) bool {
		resource, stats := key.(schema.GroupResource), value.(storage.Stats)
		objects, size := float64(stats.ObjectCount), float64(stats.ObjectCount*stats.EstimatedAverageObjectSizeBytes)
		if objects != 0 && size == 0 {
			size = -1
		}
		add := func(description *prometheus.Desc, value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
		}
		add(objectsByName, objects, resource.String())
		add(objectsByResource, objects, resource.Group, resource.Resource)
		add(objectSizes, size, resource.Group, resource.Resource)
		return true
	})
}

// countedStore records what [k8s.io/apiserver/pkg/registry/generic/registry.Store] reads in
// each period of etcd-count-metric-poll-period.
type countedStore struct {
	storage.Interface
	resource schema.GroupResource
	metrics  *ObjectMetrics
}

// Stats implements [storage.Interface].
func (s *countedStore) Stats(ctx context.Context) (storage.Stats, error) {
	stats, err := s.Interface.Stats(ctx)
	last := stats
	if err != nil {
		last = storage.Stats{ObjectCount: -1}
	}
	s.metrics.last.Store(s.resource, last)
	return stats, err
}
