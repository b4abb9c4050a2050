package apiserver

import (
	"log/slog"
	"sync"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// logDelay is the duration of a start after which the log has the reason.
	logDelay = 3 * time.Second
	// repeatInterval is the time between two log lines with the same reason.
	repeatInterval = time.Minute
)

// progress records why a start waits. It is safe for concurrent use. [logging.Changes]
// does not fit: a reason is logged only if it lasts, and again while it does.
type progress struct {
	now func() time.Time // time.Now, except in tests

	mu       sync.Mutex
	since    time.Time // the first failure
	logged   time.Time // the last message
	lastFail string
}

// failed records the failure of an attempt that will be repeated, and logs it if the start
// takes long.
func (p *progress) failed(log *slog.Logger, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		p.now = time.Now
	}
	now, reason := p.now(), kube.FailedChecks(err)
	if p.since.IsZero() {
		p.since = now
	}
	if reason != p.lastFail {
		p.lastFail, p.logged = reason, time.Time{}
	}
	if now.Sub(p.since) > logDelay && now.Sub(p.logged) > repeatInterval {
		log.Warn("still starting", "waiting for", reason)
		p.logged = now
	}
}

// succeeded ends the wait.
func (p *progress) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.logged, p.lastFail = time.Time{}, time.Time{}, ""
}

// reason returns the last failure; empty after a success.
func (p *progress) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastFail
}
