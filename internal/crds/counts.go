package crds

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const (
	// countInterval is the shortest interval at which the objects of open stores are counted
	// (--etcd-count-metric-poll-period).
	countInterval = time.Minute
	// countDelay is the time from the opening of a store to its first count: its watch
	// cache is filled meanwhile.
	countDelay = time.Second
)

// count counts the objects of the open stores until ctx ends, for metrics and flow
// control.
func (s *stores) count(ctx context.Context) {
	timer := time.NewTimer(countInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.opened:
			timer.Reset(countDelay)
			continue
		case <-timer.C:
		}
		s.countAll(ctx)
		timer.Reset(wait.Jitter(countInterval, store.CountJitter))
	}
}

// wakeCount is called when a store is opened.
func (s *stores) wakeCount() {
	select {
	case s.opened <- struct{}{}:
	default: // count is woken already
	}
}

func (s *stores) countAll(ctx context.Context) {
	s.mu.Lock()
	open := maps.Clone(s.open)
	s.mu.Unlock()
	for lazy, tracker := range open {
		opened := lazy.used()
		if opened == nil {
			continue
		}
		stats, err := opened.Stats(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		if _, still := s.open[lazy]; still { // otherwise forget has deleted the metrics
			store.RecordCount(lazy.resource, stats, err)
		}
		s.mu.Unlock()
		store.TrackCount(tracker, lazy.resource, stats, err)
	}
}
