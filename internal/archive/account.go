package archive

import (
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	lagSeconds = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_archive_lag_seconds", StabilityLevel: metrics.ALPHA,
		Help: "What was acknowledged longer ago is in the archive.",
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
	// LagSeconds is 0 when the destination has everything. Otherwise, what was
	// acknowledged longer ago is there.
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
	began   time.Time
	based   bool  // the destination has a base of the present chain
	shipped int64 // the last revision of the present chain in the destination
	samples []sample
	safe    time.Time // what was acknowledged before is in the destination
}

// sample says that what was acknowledged before at has at most this revision.
type sample struct {
	at       time.Time
	revision int64
}

// maxSamples bounds the samples that are kept. Above it every other one goes.
const maxSamples = 1000

func (l *ledger) update(change func(*Account)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.account)
}

// observes records a revision of etcd that was asked for at a moment.
func (l *ledger) observes(at time.Time, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); n > 0 && l.samples[n-1].revision >= revision {
		if l.samples[n-1].revision == revision {
			l.samples[n-1].at = at
		}
	} else {
		l.samples = append(l.samples, sample{at, revision})
	}
	if len(l.samples) > maxSamples {
		for i := range l.samples[:maxSamples/2] {
			l.samples[i] = l.samples[2*i+1]
		}
		l.samples = slices.Delete(l.samples, maxSamples/2, len(l.samples)-1)
	}
	l.settle()
}

// begins records the chain that is written, whether it has a base, and the last
// revision that the destination has of it.
func (l *ledger) begins(chain int, based bool, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.Chain, l.based, l.shipped = chain, based, revision
	l.settle()
}

// ships records that the destination has all up to a revision.
func (l *ledger) ships(revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shipped = max(l.shipped, revision)
	l.settle()
}

// hasBase records that the destination has a base of the revision.
func (l *ledger) hasBase(at time.Time, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.based, l.account.Base = true, at
	l.shipped = max(l.shipped, revision)
	l.settle()
}

// settle computes what follows. Until the present chain has a base, only the chain
// before can be restored.
func (l *ledger) settle() {
	if !l.based {
		return
	}
	l.account.Revision = l.shipped
	for len(l.samples) > 0 && l.samples[0].revision <= l.shipped {
		l.safe = l.samples[0].at
		l.samples = l.samples[1:]
	}
}

// read returns the account at this moment. current is etcd's revision, or 0 if it
// is not known.
func (l *ledger) read(current, spooled int64) Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account
	a.SpoolBytes = spooled
	a.LagRevisions = max(0, current-a.Revision)
	if since := l.safe; a.LagRevisions > 0 || !l.based {
		if since.IsZero() {
			since = l.began
		}
		a.LagSeconds = time.Since(since).Seconds()
	}
	lagSeconds.Set(a.LagSeconds)
	lagRevisions.Set(float64(a.LagRevisions))
	spoolBytes.Set(float64(a.SpoolBytes))
	return a
}
