package appliance

import (
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// waitQuietly is how long a start may take before the log says what it
	// waits for.
	waitQuietly = 3 * time.Second
	// waitPause is between two messages that say the same.
	waitPause = time.Minute
)

// waiting knows what a start waits for, for the log and for who asks.
type waiting struct {
	now func() time.Time // time.Now, except in tests

	mu     sync.Mutex
	since  time.Time
	said   time.Time
	reason string
}

// on notes that something has failed that will be tried again.
func (w *waiting) on(log *slog.Logger, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		w.now = time.Now
	}
	now, reason := w.now(), explain(err)
	if w.since.IsZero() {
		w.since = now
	}
	if reason != w.reason {
		w.reason, w.said = reason, time.Time{}
	}
	if now.Sub(w.since) > waitQuietly && now.Sub(w.said) > waitPause {
		log.Warn("still starting", "waiting for", reason)
		w.said = now
	}
}

// over notes that the wait has ended.
func (w *waiting) over() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.said, w.reason = time.Time{}, time.Time{}, ""
}

// what is waited for, or nothing.
func (w *waiting) what() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reason
}

// failedCheck is how the health endpoints mark a check (healthz.handleRootHealth).
var failedCheck = regexp.MustCompile(`\[-\](\S+) failed`)

// explain names the checks that fail, where the error is a health endpoint's
// answer.
func explain(err error) string {
	var names []string
	for _, match := range failedCheck.FindAllStringSubmatch(err.Error(), -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		return err.Error()
	}
	return strings.Join(names, ", ")
}
