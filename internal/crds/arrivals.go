package crds

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	// manyArrivals is the number of CRDs in a series from which on the series is logged.
	manyArrivals = 100
	// arrivalPause is the time without a new CRD that ends a series.
	arrivalPause = time.Second
)

// arrivals logs one line when many CRDs have come and are served.
type arrivals struct {
	log  *slog.Logger
	size func() int // of all CRDs
	wake chan struct{}

	mu          sync.Mutex
	count       int
	first, last time.Time
}

func newArrivals(log *slog.Logger, size func() int) *arrivals {
	return &arrivals{log: log, size: size, wake: make(chan struct{}, 1)}
}

// changed is a listener of the catalog.
func (a *arrivals) changed(before, after *apiextensionsv1.CustomResourceDefinition) {
	established := func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return crd != nil && apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
	}
	if !established(after) || established(before) {
		return
	}
	a.mu.Lock()
	a.last = time.Now()
	if a.count == 0 {
		a.first = a.last
	}
	a.count++
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // run is woken already
	}
}

// run logs each series when it has ended, until ctx ends.
func (a *arrivals) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		for more := true; more; {
			pause := time.NewTimer(arrivalPause)
			select {
			case <-ctx.Done():
				pause.Stop()
				return
			case <-a.wake:
				pause.Stop()
			case <-pause.C:
				more = false
			}
		}
		a.report()
	}
}

// report ends the series.
func (a *arrivals) report() {
	a.mu.Lock()
	count, took := a.count, a.last.Sub(a.first)
	a.count = 0
	a.mu.Unlock()
	if count >= manyArrivals {
		a.log.Info("new custom resource definitions are served", "new", count, "all", a.size(), "took", took.Round(time.Millisecond).String())
	}
}
