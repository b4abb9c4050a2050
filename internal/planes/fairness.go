package planes

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// contest is how long the requests to a control plane take turns after a request to another
	// server of the process.
	contest = 10 * time.Second
	// turn is how long a request holds its place. One that takes longer probably waits: for the
	// disk, or for a webhook that sends requests itself.
	turn = 10 * time.Millisecond
)

// enter counts a request unless there are too many. The caller calls exit when it has been
// answered.
func (p *plane) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entered >= p.manager.config.Host.Planes.RequestsInFlight {
		return false
	}
	p.entered++
	return true
}

func (p *plane) exit() {
	p.mu.Lock()
	p.entered--
	p.mu.Unlock()
}

// served is the handler of a control plane that is awake, without authentication, and the turns
// of its requests.
type served struct {
	http.Handler
	turns chan struct{} // a token for each request that has its turn
}

// newServed leaves a processor to others where there are several.
func newServed(handler http.Handler) *served {
	return &served{Handler: handler, turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))}
}

// take waits for the turn of a request. The caller calls end when it has been answered.
func (s *served) take(ctx context.Context) (end func(), err error) {
	select {
	case s.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	give := sync.OnceFunc(func() { <-s.turns })
	timer := time.AfterFunc(turn, give)
	return func() {
		timer.Stop()
		give()
	}, nil
}

// contests records whether more than one server of the process gets requests.
type contests struct {
	last  atomic.Pointer[plane] // to which the last request was; nil for the host
	until atomic.Int64          // in nanoseconds
}

// note notes a request, and reports whether others get requests too.
func (c *contests) note(p *plane) bool {
	now := time.Now().UnixNano()
	if c.last.Swap(p) != p {
		c.until.Store(now + int64(contest))
		return true
	}
	return now < c.until.Load()
}
