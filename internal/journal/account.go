package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// writerMetrics are the metrics of a writer.
type writerMetrics struct {
	lagSeconds, lagRevisions prometheus.Gauge
}

func newWriterMetrics() writerMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "kube_hyper_mini_journal_" + name, Help: help})
	}
	return writerMetrics{
		lagSeconds: gauge("lag_seconds", "All changes that were acknowledged longer ago than this are in the "+
			"journal; 0 if all changes are."),
		lagRevisions: gauge("lag_revisions", "How many revisions are not in the journal."),
	}
}

// Metrics are those of this writer.
func (w *Writer) Metrics() []prometheus.Collector {
	return []prometheus.Collector{w.metrics.lagSeconds, w.metrics.lagRevisions}
}

// Account is the state of the journal.
type Account struct {
	// Destination as it is configured.
	Destination string `json:"destination"`
	// Standby means that the server of the same etcd that runs the controllers writes the
	// journal. Only that one has a lag.
	Standby bool `json:"standby,omitempty"`
	// Chain that is written; 0 before the destination has been reached.
	Chain int `json:"chain,omitempty"`
	// Base is when the last base reached the destination.
	Base time.Time `json:"base,omitzero"`
	// Revision is the last one in the destination.
	Revision int64 `json:"revision,omitempty"`
	// LagSeconds is 0 when the destination has all changes; otherwise the destination has
	// all changes that are older than that.
	LagSeconds float64 `json:"lagSeconds"`
	// Lagging means that the lag is longer than ten intervals and 10 s.
	Lagging bool `json:"lagging,omitempty"`
	// LagRevisions is the number of revisions that are not in the destination. LagUnknown
	// means that etcd does not answer, and may have more of them.
	LagRevisions int64 `json:"lagRevisions"`
	LagUnknown   bool  `json:"lagUnknown,omitempty"`
	// SpoolBytes is the size of the segments on the local disk that are not in
	// the destination.
	SpoolBytes int64 `json:"spoolBytes,omitempty"`
	// Error is why the destination lags behind, and the remedy.
	Error string `json:"error,omitempty"`
	// Warning is what else is wrong: the lag is long, or old parts cannot be removed.
	Warning string `json:"warning,omitempty"`
}

// ledger collects the state of the writer from its parts. It is safe for
// concurrent use.
type ledger struct {
	maxLag time.Duration // above which the lag is a warning

	mu        sync.Mutex
	account   Account
	began     time.Time
	based     bool      // the destination has a base of the present chain
	shipped   int64     // the last revision of the present chain in the destination
	pending   sample    // that the destination does not have yet; zero without one
	safe      time.Time // changes that were acknowledged before are in the destination
	current   int64     // the revision that was read from etcd last
	requested time.Time // when current was requested
	unread    error     // why the revision could not be read the last time
}

// sample records that changes acknowledged before the time at have at most this
// revision.
type sample struct {
	at       time.Time
	revision int64
}

func (l *ledger) update(change func(*Account)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.account)
}

// recordRevision records the revision that etcd had at a time.
func (l *ledger) recordRevision(at time.Time, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unread = nil; at.After(l.requested) {
		l.requested, l.current = at, revision
	}
	if l.pending.revision == 0 || l.pending.revision == revision {
		l.pending = sample{at, revision}
	}
	l.derive()
}

// recordUnread records that etcd's revision could not be read.
func (l *ledger) recordUnread(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread = err
}

// setStandby records whether another server writes the journal.
func (l *ledger) setStandby(by bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.Standby = by
	if by {
		l.account.Chain, l.account.Revision, l.account.Base, l.account.Error = 0, 0, time.Time{}, ""
		l.based, l.shipped, l.safe = false, 0, time.Time{}
		return
	}
	l.began = time.Now()
}

// recordChain records the chain that is written, whether it has a base, and the last
// revision that the destination has of it. safe is a time before which everything is in
// the destination, if it is known from an earlier process.
func (l *ledger) recordChain(chain int, based bool, revision int64, safe time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.Chain, l.based, l.shipped = chain, based, revision
	if safe.After(l.safe) {
		l.safe = safe
	}
	l.derive()
}

// recordShipped records that the destination has all up to a revision.
func (l *ledger) recordShipped(revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shipped = max(l.shipped, revision)
	l.derive()
}

// recordBase records that the destination has a base of the revision.
func (l *ledger) recordBase(at time.Time, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.based, l.account.Base = true, at
	l.shipped = max(l.shipped, revision)
	l.derive()
}

// derive computes the derived fields. Until the present chain has a base, only
// the previous chain can be restored.
func (l *ledger) derive() {
	if !l.based {
		return
	}
	l.account.Revision = l.shipped
	if l.pending.revision != 0 && l.pending.revision <= l.shipped {
		l.safe, l.pending = l.pending.at, sample{}
	}
}

// read returns the account at this moment.
func (l *ledger) read(spooled int64) Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account
	a.SpoolBytes = spooled
	if a.Standby {
		return a
	}
	a.LagRevisions = max(0, l.current-a.Revision)
	a.LagUnknown = l.unread != nil
	if a.LagUnknown && a.Error == "" {
		a.Error = fmt.Sprintf("the lag is not known: %v", l.unread)
	}
	if since := l.safe; a.LagRevisions > 0 || a.LagUnknown || !l.based {
		if since.IsZero() {
			since = l.began
		}
		a.LagSeconds = time.Since(since).Seconds()
	}
	if a.Lagging = a.LagSeconds > l.maxLag.Seconds(); a.Lagging && a.Warning == "" && a.Error == "" {
		a.Warning = fmt.Sprintf("the destination has not confirmed the changes of the last %.0f s (more than %s): it is "+
			"slow, or does not answer", a.LagSeconds, l.maxLag)
	}
	return a
}

// reportFailure reports a failure, once for each series. [logging.Changes] does not fit:
// the errors of a series differ.
func (w *Writer) reportFailure(ctx context.Context, err error) {
	if ctx.Err() != nil || w.recordFailure(err) {
		return
	}
	w.warn("the journal lags behind", err)
}

// recordFailure puts a failure into the account. It reports whether the attempt before
// failed, too.
func (w *Writer) recordFailure(err error) (series bool) {
	w.ledger.update(func(a *Account) { a.Error = err.Error() })
	w.mu.Lock()
	defer w.mu.Unlock()
	series, w.failed = w.failed, true
	return series
}

// reportChainEnd reports that the chain has ended, and that a new one begins.
func (w *Writer) reportChainEnd(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.recordFailure(fmt.Errorf("the journal begins a new chain: %w", err))
	w.warn("the journal begins a new chain", err)
}

// warn logs a warning.
func (w *Writer) warn(text string, err error) {
	w.config.Log.Warn(text, "destination", w.config.Store, "error", err)
}

// reportSuccess ends a series of failures.
func (w *Writer) reportSuccess() {
	w.ledger.update(func(a *Account) { a.Error = "" })
	w.mu.Lock()
	failed := w.failed
	w.failed = false
	w.mu.Unlock()
	if failed {
		w.config.Log.Info("the journal works again", "destination", w.config.Store)
	}
}
