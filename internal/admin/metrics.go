package admin

import "github.com/prometheus/client_golang/prometheus"

var (
	readyMetric = prometheus.NewDesc("kube_hyper_mini_ready",
		"1 while the server is ready: an authenticated write has worked and the controllers run.", nil, nil)
	certificateMetric = prometheus.NewDesc("kube_hyper_mini_certificate_end_timestamp_seconds",
		"When a certificate of the server ends. It is renewed when a third of its life is left.", []string{"name"}, nil)
	manifestsMetric = prometheus.NewDesc("kube_hyper_mini_manifests_failures",
		"Manifests of manifests.dir that could not be read or applied in the last round.", nil, nil)
)

// collector makes metrics of the status. It implements [prometheus.Collector].
type collector struct{ source func() StatusSource }

// Metrics returns the metrics of the server as a whole.
func Metrics(source func() StatusSource) prometheus.Collector { return collector{source} }

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	to <- readyMetric
	to <- certificateMetric
	to <- manifestsMetric
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	source := c.source()
	ready := 0.0
	if source.NotReady() == nil && source.ReadySince() != nil { // a stop may begin between the two
		ready = 1
	}
	to <- prometheus.MustNewConstMetric(readyMetric, prometheus.GaugeValue, ready)
	failures := 0
	if applier := source.Manifests(); applier != nil {
		failures = applier.Summary().Failures
	}
	to <- prometheus.MustNewConstMetric(manifestsMetric, prometheus.GaugeValue, float64(failures))
	certificates, err := source.Certificates()
	if err != nil {
		to <- prometheus.NewInvalidMetric(certificateMetric, err)
		return
	}
	for name, end := range certificates {
		to <- prometheus.MustNewConstMetric(certificateMetric, prometheus.GaugeValue, float64(end.Unix()), name)
	}
}
