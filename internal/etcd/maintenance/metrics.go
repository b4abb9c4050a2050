package maintenance

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	nearGauge = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_database_near_quota", StabilityLevel: metrics.ALPHA,
		Help: "1 while the embedded database (etcd_mvcc_db_total_size_in_bytes) takes 80 % of etcd.embedded.quotaBackend or more.",
	})
	quotaGauge = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_database_quota_bytes", StabilityLevel: metrics.ALPHA,
		Help: "Size of the embedded database at which writes are refused (etcd.embedded.quotaBackend). etcd's own quota, etcd_server_quota_backend_bytes, is larger.",
	})
	readOnlyGauge = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_database_read_only", StabilityLevel: metrics.ALPHA,
		Help: "1 while writes are refused because the embedded database or its disk is full.",
	})
	defragmentations = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "kube_hyper_mini_database_defragmentations_total", StabilityLevel: metrics.ALPHA,
		Help: "Defragmentations of the embedded database, by cause (fragmentation, no-space, command) and result.",
	}, []string{"cause", "result"})
	defragmentSeconds = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_database_defragmentation_seconds", StabilityLevel: metrics.ALPHA,
		Help: "Duration of the last defragmentation of the embedded database, which blocked reads and writes.",
	})
)

var register = sync.OnceFunc(func() {
	legacyregistry.MustRegister(nearGauge, quotaGauge, readOnlyGauge, defragmentations, defragmentSeconds)
})

func gaugeValue(set bool) float64 {
	if set {
		return 1
	}
	return 0
}
