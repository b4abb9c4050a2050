package apiserver

import (
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// logDelay is the duration of a start after which the log has the reason.
	logDelay = 3 * time.Second
	// repeatInterval is the time between two log lines with the same reason.
	repeatInterval = time.Minute
)

// progress records why a start waits. It is safe for concurrent use.
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
	now, reason := p.now(), failedChecks(err)
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

// Upstream fact: how the health endpoints mark a failed check
//
// Mirrors: k8s.io/apiserver/pkg/server/healthz.handleRootHealth
// Why: the endpoints return text, from which a start takes the names of the
//   checks that it waits for.
// Gain: the log and `status` name what a long start waits for.
// Breaks: they name the whole response of the endpoint.

// failedCheck is how the health endpoints mark a check
// (k8s.io/apiserver/pkg/server/healthz.handleRootHealth).
var failedCheck = regexp.MustCompile(`\[-\](\S+) failed`)

// failedChecks returns the names of the failed checks if the error is the response of a
// health endpoint, otherwise the text of the error.
func failedChecks(err error) string {
	var names []string
	for _, match := range failedCheck.FindAllStringSubmatch(err.Error(), -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		return err.Error()
	}
	return strings.Join(names, ", ")
}
