package controllers

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// noRequestsFor is how long a controller that has done its work sends no requests.
	noRequestsFor = 200 * time.Millisecond
	// noRequestsTimeout bounds the wait for a controller that always has work.
	noRequestsTimeout = 10 * time.Second
)

// requestCounter counts the requests of a controller that are in progress. It is safe for
// concurrent use.
type requestCounter struct {
	mu      sync.Mutex
	running int
	last    time.Time // the end of the last one, or the start of the controller
}

// count returns the client configuration, whose requests are counted.
func (c *requestCounter) count(client *rest.Config) *rest.Config {
	client = rest.CopyConfig(client)
	client.Wrap(func(next http.RoundTripper) http.RoundTripper { return countedRequests{c, next} })
	return client
}

// starts says that the controller starts: its requests are still to come.
func (c *requestCounter) starts() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
}

// awaitNone returns when there has been no request for noRequestsFor, after
// noRequestsTimeout, or when ctx has ended.
func (c *requestCounter) awaitNone(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, noRequestsTimeout)
	defer cancel()
	for ctx.Err() == nil {
		wait := c.untilNone(time.Now())
		if wait <= 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// untilNone returns when to look again; 0 if there has been no request for noRequestsFor.
func (c *requestCounter) untilNone(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running > 0 {
		return noRequestsFor
	}
	return c.last.Add(noRequestsFor).Sub(now)
}

// countedRequests is the transport of the client.
type countedRequests struct {
	counter *requestCounter
	next    http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t countedRequests) RoundTrip(request *http.Request) (*http.Response, error) {
	t.counter.mu.Lock()
	t.counter.running++
	t.counter.mu.Unlock()
	defer func() {
		t.counter.mu.Lock()
		defer t.counter.mu.Unlock()
		t.counter.running--
		t.counter.last = time.Now()
	}()
	return t.next.RoundTrip(request)
}
