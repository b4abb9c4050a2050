package crds

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
)

// Upstream fact: how the objects of a store are counted
//
// Mirrors: k8s.io/apiserver/pkg/registry/generic/registry.Store.startObservingCount
// Why: it takes a goroutine and a timer for each version of a custom resource, and would
//   open stores that no client uses.
// Gain: one goroutine counts for all types.
// Breaks: apiserver_resource_objects and the cost of lists in flow control are wrong for
//   custom resources.

const (
	// countInterval is the shortest interval at which the objects of open stores are counted
	// (--etcd-count-metric-poll-period).
	countInterval = time.Minute
	// countJitter lengthens each interval by up to so many times, as upstream does.
	countJitter = 1.2
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
		timer.Reset(wait.Jitter(countInterval, countJitter))
	}
}

// wakeCount is called when a store is opened.
func (s *stores) wakeCount() {
	select {
	case s.opened <- struct{}{}:
	default: // it is awake
	}
}

func (s *stores) countAll(ctx context.Context) {
	s.mu.Lock()
	open := maps.Clone(s.open)
	s.mu.Unlock()
	for lazy, tracker := range open {
		store := lazy.used()
		if store == nil {
			continue
		}
		stats, err := store.Stats(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		if _, still := s.open[lazy]; still { // otherwise forget has deleted the metrics
			metrics.UpdateStoreStats(lazy.resource, stats, err)
		}
		s.mu.Unlock()
		if err == nil && tracker != nil {
			tracker.Set(lazy.resource.String(), stats)
		}
	}
}
