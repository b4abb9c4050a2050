package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
)

func TestReadyMetric(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		notReady error
		since    *time.Time
		want     float64
	}{
		"starting": {notReady: errors.New("starting")},
		"ready":    {since: &now, want: 1},
		// The stop has begun after NotReady was called.
		"stopping": {},
	} {
		source := StatusSource{
			NotReady: func() error { return test.notReady }, ReadySince: func() *time.Time { return test.since },
			Manifests:    func() *manifests.Applier { return nil },
			Certificates: func() (map[string]time.Time, error) { return nil, nil },
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(collector{func() StatusSource { return source }})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if got := family.GetMetric()[0].GetGauge().GetValue(); family.GetName() == "kube_hyper_mini_ready" && got != test.want {
				t.Errorf("%s: ready is %v, not %v", name, got, test.want)
			}
		}
	}
}
