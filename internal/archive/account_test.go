package archive

import (
	"errors"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
)

// TestLagInMetrics although the status is not asked for. It is not parallel: the
// metrics are those of the process.
func TestLagInMetrics(t *testing.T) {
	store := &failing{Store: NewDirectory(t.TempDir())}
	f := start(t, store, t.TempDir(), nil)
	f.caughtUp()
	store.down.Store(true)
	f.history(3)
	await(t, "the metrics have the lag", func() error {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			if family.GetName() == "kube_hyper_mini_archive_lag_revisions" && family.GetMetric()[0].GetGauge().GetValue() > 0 {
				return nil
			}
		}
		return errors.New("no lag")
	})
}
