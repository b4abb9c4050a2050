package archive

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	lagSeconds = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_archive_lag_seconds", StabilityLevel: metrics.ALPHA,
		Help: "Age of the oldest change that is not in the archive.",
	})
	lagRevisions = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_archive_lag_revisions", StabilityLevel: metrics.ALPHA,
		Help: "How many revisions are not in the archive.",
	})
	spoolBytes = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_archive_spool_bytes", StabilityLevel: metrics.ALPHA,
		Help: "Size of the segments that wait for the destination of the archive.",
	})
	shippedBytes = metrics.NewCounter(&metrics.CounterOpts{
		Name: "kube_hyper_mini_archive_bytes_total", StabilityLevel: metrics.ALPHA,
		Help: "Bytes written to the destination of the archive.",
	})
	shipErrors = metrics.NewCounter(&metrics.CounterOpts{
		Name: "kube_hyper_mini_archive_errors_total", StabilityLevel: metrics.ALPHA,
		Help: "Failed attempts to write to the destination of the archive.",
	})
)

// registerMetrics registers the metrics of the archive once.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(lagSeconds, lagRevisions, spoolBytes, shippedBytes, shipErrors)
})

// Record tells the users of the API of an event.
type Record func(kind, reason, format string, args ...any)

// Account is what has become of the archive.
type Account struct {
	// Destination as it is configured.
	Destination string `json:"destination"`
	// Chain that is written; 0 before the destination has been reached.
	Chain int `json:"chain,omitempty"`
	// Base is when the last base reached the destination.
	Base time.Time `json:"base,omitzero"`
	// Revision is the last one in the destination.
	Revision int64 `json:"revision,omitempty"`
	// LagSeconds is the age of the oldest change that is not in the destination.
	// What was acknowledged before is there.
	LagSeconds float64 `json:"lagSeconds"`
	// LagRevisions is how many revisions are not in the destination.
	LagRevisions int64 `json:"lagRevisions"`
	// SpoolBytes wait on the local disk.
	SpoolBytes int64 `json:"spoolBytes,omitempty"`
	// Error is why the destination does not have everything, and what to do.
	Error string `json:"error,omitempty"`
}

// ledger is what the parts of the writer know of its state. It is safe for
// concurrent use.
type ledger struct {
	mu      sync.Mutex
	account Account
	seen    int64     // the last revision that the watch has delivered
	oldest  time.Time // when the oldest change that is not shipped was seen
	behind  time.Time // since when there is no base, and so nothing is restorable
}

func (l *ledger) update(change func(*Account)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.account)
}

// sees records that the watch has delivered a revision.
func (l *ledger) sees(revision int64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = revision
	if l.oldest.IsZero() {
		l.oldest = at
	}
}

// ships records that the destination has all up to a revision. next is when the
// oldest change after it was seen; zero if there is none.
func (l *ledger) ships(revision int64, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.Revision, l.oldest = revision, next
}

// incomplete records whether the destination has no base of the present chain.
func (l *ledger) incomplete(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !yes:
		l.behind = time.Time{}
	case l.behind.IsZero():
		l.behind = time.Now()
	}
}

// read returns the account at this moment. current is etcd's revision, or 0.
func (l *ledger) read(current, spooled int64) Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, now := l.account, time.Now()
	a.SpoolBytes = spooled
	a.LagRevisions = max(current, l.seen) - a.Revision
	if a.Chain == 0 || !l.behind.IsZero() || a.LagRevisions < 0 {
		a.LagRevisions = max(current, l.seen)
	}
	for _, since := range []time.Time{l.oldest, l.behind} {
		if !since.IsZero() {
			a.LagSeconds = max(a.LagSeconds, now.Sub(since).Seconds())
		}
	}
	lagSeconds.Set(a.LagSeconds)
	lagRevisions.Set(float64(a.LagRevisions))
	spoolBytes.Set(float64(a.SpoolBytes))
	return a
}
