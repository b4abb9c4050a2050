package apiserver

import (
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// quietStart is how long a start may take before the log says what it waits
	// for.
	quietStart = 3 * time.Second
	// repeatInterval is between two messages with the same reason.
	repeatInterval = time.Minute
)

// progress knows what a start waits for. It is safe for concurrent use.
type progress struct {
	now func() time.Time // time.Now, except in tests

	mu       sync.Mutex
	since    time.Time // the first failure
	logged   time.Time // the last message
	lastFail string
}

// failed records a failure of something that will be tried again, and logs it
// when the start takes long.
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
	if now.Sub(p.since) > quietStart && now.Sub(p.logged) > repeatInterval {
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

// reason is the last failure, or empty.
func (p *progress) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastFail
}

// failedCheck is how the health endpoints mark a check
// (k8s.io/apiserver/pkg/server/healthz.handleRootHealth).
var failedCheck = regexp.MustCompile(`\[-\](\S+) failed`)

// failedChecks names the checks that fail where the error is a health endpoint's
// answer, and is the error's text elsewhere.
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
