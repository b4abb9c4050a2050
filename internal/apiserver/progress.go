package apiserver

import (
	"log/slog"
	"sync"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// logDelay is the duration of a start after which the log has the reason.
const logDelay = 3 * time.Second

// progress records why a start waits. It is safe for concurrent use. [logging.Changes]
// does not fit: a reason is logged only if it lasts.
type progress struct {
	mu       sync.Mutex
	since    time.Time // the first failure
	lastFail string
	logged   string // the last reason in the log
}

// failed records the failure of an attempt that will be repeated, and logs it if the start
// takes long.
func (p *progress) failed(log *slog.Logger, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = time.Now()
	}
	p.lastFail = kube.FailedChecks(err)
	if time.Since(p.since) > logDelay && p.logged != p.lastFail {
		log.Warn("still starting", "waiting for", p.lastFail)
		p.logged = p.lastFail
	}
}

// succeeded ends the wait.
func (p *progress) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.lastFail, p.logged = time.Time{}, "", ""
}

// reason returns the last failure; empty after a success.
func (p *progress) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastFail
}
