package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// measureStart starts a side on a new directory, stops it, and starts it again.
func measureStart(ctx context.Context, b *bench, s side) (values []float64, err error) {
	dir, err := b.newDir(s.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	for range 2 {
		c, err := s.start(ctx, dir)
		if err != nil {
			return nil, err
		}
		used, err := c.usage()
		if err := errors.Join(err, c.stop()); err != nil {
			return nil, err
		}
		values = append(values, c.firstWrite.Seconds(), c.controllers.Seconds(), used.cpu)
	}
	return values, nil
}

// watchers of the figure "stop".
const stopWatchers = 100

// measureStop stops a side while watches are open.
func measureStop(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.started(ctx, s, func(c *cluster) error {
		clients, err := newAPIs(ctx, c.config, stopWatchers)
		if err != nil {
			return err
		}
		defer closeAll(clients)
		for _, client := range clients {
			w, err := client.watch(ctx, configMapsPath("default"), "")
			if err != nil {
				return err
			}
			defer w.close()
			if _, err := w.next(); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := c.stop(); err != nil {
			return err
		}
		values = []float64{since(began)}
		return nil
	})
	return values, err
}

// measureIdle leaves a side alone, for a while so that it comes to rest and
// then to see what it takes.
func measureIdle(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.withFixture(ctx, s, func(f fixture) error {
		if err := pause(ctx, b.settle); err != nil {
			return err
		}
		before, after, span, err := f.watched(ctx, b.idle)
		if err != nil {
			return err
		}
		goroutines, err := f.goroutines(ctx)
		if err != nil {
			return err
		}
		live, err := f.liveHeap(ctx)
		if err != nil {
			return err
		}
		values = []float64{
			after.anonymous, after.file,
			(after.cpu - before.cpu) / span * 100, (after.written - before.written) / span, goroutines, live,
		}
		return nil
	})
	return values, err
}

// watched is what all processes take before and after a time, of which the exact length in
// seconds is returned as well.
func (c *cluster) watched(ctx context.Context, d time.Duration) (before, after usage, span float64, err error) {
	if before, err = c.usage(); err != nil {
		return before, after, 0, err
	}
	began := time.Now()
	if err := pause(ctx, d); err != nil {
		return before, after, 0, err
	}
	span = since(began)
	after, err = c.usage()
	return before, after, span, err
}

// A server that has just started has something left to do.
const (
	restSpan  = time.Second
	restShare = 0.1 // of a core
)

// rest returns when what the start has left to do is done: a second passes in
// which all processes take less than a tenth of a core.
func (f fixture) rest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		before, after, span, err := f.watched(ctx, restSpan)
		if err != nil {
			return fmt.Errorf("the processes do not come to rest: %w", err)
		}
		if after.cpu-before.cpu < restShare*span {
			return nil
		}
	}
}

// pause lets time pass: what is measured is what happens in it.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait: %w", ctx.Err())
	case <-time.After(d):
		return nil
	}
}

var (
	goroutinesLine = regexp.MustCompile(`(?m)^go_goroutines (\S+)$`)
	liveLine       = regexp.MustCompile(`(?m)^go_gc_heap_live_bytes (\S+)$`)
)

// goroutines of all processes.
func (f fixture) goroutines(ctx context.Context) (float64, error) {
	return f.metric(ctx, goroutinesLine)
}

// liveHeap is what a collection of garbage leaves of the heap, in bytes. It is NaN for the
// other side: etcd has no such metric.
func (f fixture) liveHeap(ctx context.Context) (float64, error) {
	if len(f.metrics) > 1 {
		return math.NaN(), nil
	}
	const collect = "/debug/pprof/heap?gc=1" // the profile itself is not used
	if err := f.discard(ctx, http.MethodGet, collect, nil); err != nil {
		return 0, err
	}
	return f.metric(ctx, liveLine)
}

// metric adds up a metric of all processes.
func (f fixture) metric(ctx context.Context, line *regexp.Regexp) (float64, error) {
	var sum float64
	for _, url := range f.metrics {
		text, err := f.do(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		found := line.FindSubmatch(text)
		if found == nil {
			return 0, fmt.Errorf("%s has no line %s", url, line)
		}
		n, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return 0, fmt.Errorf("read %s from %s: %w", line, url, err)
		}
		sum += n
	}
	return sum, nil
}
