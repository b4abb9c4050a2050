package maintenance

import "github.com/prometheus/client_golang/prometheus"

// keeperMetrics are the metrics of a keeper.
type keeperMetrics struct {
	near, quota, readOnly, defragmentSeconds prometheus.Gauge
	defragmentations                         *prometheus.CounterVec
}

func newKeeperMetrics() keeperMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "kube_hyper_mini_database_" + name, Help: help})
	}
	return keeperMetrics{
		near: gauge("near_quota", "1 while the embedded database (etcd_mvcc_db_total_size_in_bytes) "+
			"takes 80 % of etcd.embedded.quotaBackend or more."),
		quota: gauge("quota_bytes", "Size of the embedded database at which writes are refused "+
			"(etcd.embedded.quotaBackend). etcd's own quota, etcd_server_quota_backend_bytes, is larger."),
		readOnly: gauge("read_only", "1 while writes are refused because the embedded database or its disk is full."),
		defragmentSeconds: gauge("defragmentation_seconds", "Duration of the last defragmentation of the embedded "+
			"database, which blocked reads and writes."),
		defragmentations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kube_hyper_mini_database_defragmentations_total",
			Help: "Defragmentations of the embedded database, by cause (fragmentation, no-space, command) and result.",
		}, []string{"cause", "result"}),
	}
}

// Metrics are those of this keeper; a nil Keeper has none.
func (k *Keeper) Metrics() []prometheus.Collector {
	if k == nil {
		return nil
	}
	m := k.metrics
	return []prometheus.Collector{m.near, m.quota, m.readOnly, m.defragmentSeconds, m.defragmentations}
}

func gaugeValue(set bool) float64 {
	if set {
		return 1
	}
	return 0
}
