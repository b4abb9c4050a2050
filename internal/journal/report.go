package journal

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// RecordEvents makes the writer record events from now on, and one for a failure that
// lasts.
func (w *Writer) RecordEvents(record Record) {
	failure := w.ledger.read(w.spool.size()).Error
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = record
	for _, warning := range w.early {
		w.recordWarning(warning)
	}
	w.early = nil
	if w.failed {
		w.recordFailure(failure)
	}
}

func (w *Writer) recordFailure(text string) {
	w.record(corev1.EventTypeWarning, "JournalFailed", "The journal lags behind: %s", text)
}

// reportFailure reports a failure, once for each series. [logging.Changes] does not fit:
// the errors of a series differ, and its event is recorded later if it began too early.
func (w *Writer) reportFailure(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if series := w.countFailure(err); series {
		return
	}
	w.config.Log.Warn("the journal lags behind", "destination", w.config.Store, "error", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.record != nil {
		w.recordFailure(err.Error())
	}
}

// countFailure puts a failure into the account and the metrics. It reports whether the
// attempt before failed, too.
func (w *Writer) countFailure(err error) (series bool) {
	shipErrors.Inc()
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
	w.countFailure(fmt.Errorf("the journal begins a new chain: %w", err))
	w.warn("JournalChainEnded", "the journal begins a new chain", err)
}

// warn logs a warning and records an event.
func (w *Writer) warn(reason, text string, err error) {
	w.config.Log.Warn(text, "destination", w.config.Store, "error", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	warning := warning{reason, text, err}
	switch {
	case w.record != nil:
		w.recordWarning(warning)
	case len(w.early) < maxEarly:
		w.early = append(w.early, warning)
	}
}

// maxEarly bounds the warnings that wait to be recorded.
const maxEarly = 10

// warning is what an event says.
type warning struct {
	reason, text string
	err          error
}

func (w *Writer) recordWarning(warning warning) {
	w.record(corev1.EventTypeWarning, warning.reason, "%s%s: %v", strings.ToUpper(warning.text[:1]), warning.text[1:], warning.err)
}

// reportSuccess ends a series of failures.
func (w *Writer) reportSuccess() {
	w.ledger.update(func(a *Account) { a.Error = "" })
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.failed {
		return
	}
	w.failed = false
	w.config.Log.Info("the journal works again", "destination", w.config.Store)
	if w.record != nil {
		w.record(corev1.EventTypeNormal, "JournalWorks", "The journal works again")
	}
}
