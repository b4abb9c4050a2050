package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	fanOutWatchers = 200
	fanOutWrites   = 200
	// fanOutPace keeps the events of one write from queueing behind those of
	// the one before.
	fanOutPace = 50 * time.Millisecond
)

// mark comes before the time of the write in each event.
var mark = []byte("written-at-")

// measureFanOut has one writer change an object that many clients watch. The
// object has the time at which the writer began to send it.
func measureFanOut(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.withFixture(ctx, s, func(f fixture) error {
		collection := configMapsPath("default")
		created, err := f.do(ctx, http.MethodPost, collection, configMap("fan-out", "", nil, 0))
		if err != nil {
			return err
		}
		version, err := resourceVersion(created)
		if err != nil {
			return err
		}
		clients, err := newAPIs(ctx, f.config, fanOutWatchers)
		if err != nil {
			return err
		}
		defer closeAll(clients)
		if err := f.rest(ctx); err != nil {
			return err
		}
		var (
			mu        sync.Mutex
			latencies []float64
		)
		watching, watchCtx := errgroup.WithContext(ctx)
		for _, client := range clients {
			w, err := client.watch(watchCtx, collection, "fieldSelector=metadata.name%3Dfan-out&resourceVersion="+version)
			if err != nil {
				return err
			}
			defer w.close()
			watching.Go(func() error {
				seen, err := receive(w, fanOutWrites)
				mu.Lock()
				defer mu.Unlock()
				latencies = append(latencies, seen...)
				return err
			})
		}
		watching.Go(func() error { return writeAtPace(watchCtx, f.api, collection+"/fan-out", fanOutWrites) })
		if err := watching.Wait(); err != nil {
			return err
		}
		values = []float64{percentile(latencies, 50), percentile(latencies, 99)}
		return nil
	})
	return values, err
}

// writeAtPace changes the object n times.
func writeAtPace(ctx context.Context, client *api, path string, n int) error {
	ticker := time.NewTicker(fanOutPace)
	defer ticker.Stop()
	for range n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		body := encode(object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("fan-out", nil),
			"data": object{"value": string(mark) + strconv.FormatInt(time.Now().UnixNano(), 10)},
		})
		if err := client.discard(ctx, http.MethodPut, path, body); err != nil {
			return err
		}
	}
	return nil
}

// receive waits for n events and returns how old each was.
func receive(w *watch, n int) ([]float64, error) {
	latencies := make([]float64, 0, n)
	for len(latencies) < n {
		line, err := w.next()
		now := time.Now()
		if err != nil {
			return nil, err
		}
		_, rest, found := bytes.Cut(line, mark)
		if !found {
			return nil, fmt.Errorf("an event without a time: %s", line)
		}
		digits, _, _ := bytes.Cut(rest, []byte(`"`))
		written, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the time in an event: %w", err)
		}
		latencies = append(latencies, now.Sub(time.Unix(0, written)).Seconds())
	}
	return latencies, nil
}
