package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// sizingObjects are the numbers of objects in the sizing table.
var sizingObjects = []int{10_000, 100_000}

// objectsFigure fills a custom resource with objects that a client watches.
func objectsFigure() figure {
	f := figure{name: "sizing-objects"}
	for _, n := range sizingObjects {
		for _, row := range []row{
			{name: "until all are stored", unit: inSeconds}, {name: "anonymous memory, highest while they come", unit: inBytes},
			{name: "anonymous memory a minute after", unit: inBytes}, {name: "database and log on disk", unit: inBytes},
			{name: "warm start to ready", unit: inSeconds}, {name: "processor time of the warm start", unit: inSeconds},
			{name: "anonymous memory a minute after it, watched again", unit: inBytes},
		} {
			row.name = fmt.Sprintf("%d objects of 1 kB: %s", n, row.name)
			f.rows = append(f.rows, row)
		}
	}
	f.measure = func(ctx context.Context, b *bench, side side) (values []float64, err error) {
		for _, n := range sizingObjects {
			measured, err := b.measureObjects(ctx, side, n)
			if err != nil {
				return nil, err
			}
			for _, value := range measured {
				row := f.rows[len(values)]
				b.say("%s, %s: %s", side.name, row.name, row.unit.format(value))
				values = append(values, value)
			}
		}
		return values, nil
	}
	return f
}

// measureObjects measures one number of objects.
func (b *bench) measureObjects(ctx context.Context, side side, n int) (values []float64, err error) {
	err = b.withFixture(ctx, side, func(f fixture) error {
		r := &crdRun{fixture: f, bench: b, side: side}
		if err := r.define(ctx, "widgets"); err != nil {
			return err
		}
		stored, err := r.fillWatched(ctx, n)
		if err != nil {
			return err
		}
		restarted, err := r.restart(ctx)
		if err != nil {
			return err
		}
		rested, err := r.watchedAtRest(ctx)
		values = append(append(stored, restarted...), rested)
		return err
	})
	return values, err
}

// fillWatched creates objects while a client watches them. It returns the seconds,
// the highest memory, and that of a minute after.
func (r *crdRun) fillWatched(ctx context.Context, n int) ([]float64, error) {
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { r.keepWatching(watching) })
	defer watcher.Wait()
	defer stop()
	began := time.Now()
	var seconds float64
	highest, err := r.peak(func() error {
		defer func() { seconds = since(began) }()
		return r.fill(ctx, widgets, "default", n, payload, nil)
	})
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, afterwards); err != nil {
		return nil, err
	}
	now, err := r.memory()
	return []float64{seconds, highest, now}, err
}

// keepWatching reads the events of a watch until ctx ends. A server ends the watch of a
// client that reads slowly; then another begins.
func (r *crdRun) keepWatching(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := r.watch(ctx, widgets.path("default"), "")
		for err == nil {
			_, err = w.next()
		}
		if w != nil {
			w.close()
		}
		_ = pause(ctx, poll) // fails when ctx ends
	}
}

// watchedAtRest is the memory a minute after a client has begun to watch.
func (r *crdRun) watchedAtRest(ctx context.Context) (float64, error) {
	if err := retried(ctx, func() error { return r.discard(ctx, http.MethodGet, widgets.path("default")+"?limit=1", nil) }); err != nil {
		return 0, err
	}
	var w *watch
	if err := retriedLater(ctx, func() (err error) { // the watch cache of a busy machine is not filled in time
		w, err = r.watch(ctx, widgets.path("default"), "")
		return err
	}); err != nil {
		return 0, err
	}
	defer w.close()
	if err := pause(ctx, afterwards); err != nil {
		return 0, err
	}
	return r.memory()
}
