package planes

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// contest is how long after a request to another server of the process those to a control
	// plane take turns.
	contest = 10 * time.Second
	// turn is how long a request keeps others of its control plane from the processors. After
	// that it probably waits: for the disk, for a webhook that sends requests itself.
	turn = 10 * time.Millisecond
)

// budget bounds the requests to one control plane before those of all use the processors.
type budget struct {
	inFlight *semaphore.Weighted
	turns    chan struct{} // a token for each request that has its turn
}

// newBudget returns a budget that leaves a processor to others where there are several.
func newBudget(requests int) *budget {
	return &budget{inFlight: semaphore.NewWeighted(int64(requests)),
		turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))}
}

// take waits for the turn of a request. The caller calls end when it has been answered.
func (b *budget) take(ctx context.Context) (end func(), err error) {
	select {
	case b.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	give := sync.OnceFunc(func() { <-b.turns })
	timer := time.AfterFunc(turn, give)
	return func() {
		timer.Stop()
		give()
	}, nil
}

// contests knows whether more than one server of the process gets requests.
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
