package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"
)

// Of the figure planes.
const (
	planesAlone   = 50 // made one after the other; then the others, by several clients
	planesClients = 4
	planesWoken   = 50
	planesAwake   = 100
	planeWatches  = 5
	planesPath    = "/apis/planes.kube-hyper-mini.io/v1alpha1/controlplanes"
	planesTimeout = 2 * time.Minute
)

// planesPeak is why a figure that was measured after all have been awake is missed.
const planesPeak = "what stays lies in the pages of those that were awake at the same time, 100 MB with 300 and 190 MB with 1,000; " +
	"the next ones use them again"

var planesRows = []row{
	{name: "planes: from the object to an authenticated write", unit: inSeconds, limit: 0.3},
	{name: fmt.Sprintf("planes: made and written to by %d clients, a second", planesClients), unit: plain},
	{name: fmt.Sprintf("planes: memory of each asleep with %d watches", planeWatches), unit: inBytes, limit: 250e3, reason: planesPeak + "; a watch takes 20 kB of upstream's HTTP/2 and its goroutine"},
	{name: "planes: memory of each asleep without watches", unit: inBytes, limit: 100e3, reason: planesPeak},
	{name: "planes: goroutines of each asleep without watches", unit: plain},
	{name: "planes: size of the directory of each", unit: inBytes, limit: 4e6},
	{name: "planes: from asleep to the answer to a get, median", unit: inSeconds, limit: 0.15},
	{name: "planes: from asleep to the answer to a get, worst", unit: inSeconds, limit: 0.5},
	{name: fmt.Sprintf("planes: memory of each of %d awake", planesAwake), unit: inBytes, limit: 14e6},
	{name: "planes: lines of /metrics that each asleep adds", unit: plain},
	{name: "planes: what all add to a warm start", unit: inSeconds, limit: 0.1},
	{name: "planes: memory of each that has slept since the start", unit: inBytes, limit: 100e3},
	{name: "planes: deletion of each", unit: inSeconds, limit: 0.06},
}

// planesConfig has them asleep soon.
const planesConfig = "planes:\n  enabled: true\n  sleepAfter: 2s\n"

// measurePlanes makes many control planes in one server; the other side has nothing of the kind.
func measurePlanes(ctx context.Context, b *bench, s side) (values []float64, err error) {
	if s.name != ours {
		return slices.Repeat([]float64{math.NaN()}, len(planesRows)), nil
	}
	dir, err := b.newDir("planes")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	warm := 0.0 // of the second start
	for range 2 {
		c, err := b.startOursWith(ctx, dir, planesConfig)
		if err != nil {
			return nil, err
		}
		warm = c.firstWrite.Seconds()
		if err := c.stop(); err != nil {
			return nil, err
		}
	}
	before := usage{}
	err = b.withPlanes(ctx, dir, func(p *planesHost) (err error) {
		values, err = p.measure(ctx)
		before = p.before
		return err
	})
	if err != nil {
		return nil, err
	}
	err = b.withPlanes(ctx, dir, func(p *planesHost) error {
		p.before = before
		slept, _, _, _, err := p.asleep(ctx)
		if err != nil {
			return err
		}
		took, err := p.deletion(ctx)
		values = append(values, p.firstWrite.Seconds()-warm, slept, took)
		return err
	})
	return values, err
}

// planesHost is a server with control planes.
type planesHost struct {
	fixture
	made       int // control planes
	before     usage
	goroutines float64
	metrics    int
}

func (b *bench) withPlanes(ctx context.Context, dir string, use func(*planesHost) error) error {
	c, err := b.startOursWith(ctx, dir, planesConfig)
	if err != nil {
		return err
	}
	client, err := newAPI(c.config)
	if err != nil {
		return errors.Join(err, c.stop())
	}
	defer client.close()
	return errors.Join(use(&planesHost{fixture: fixture{c, client}, made: b.planes}), c.stop())
}

func planePath(i int) string { return fmt.Sprintf("/clusters/plane-%d", i) }

// measure returns the values up to that of /metrics.
func (p *planesHost) measure(ctx context.Context) ([]float64, error) {
	// What the first one adds is of the process.
	if err := p.put(ctx, p.made+planesAwake, ""); err != nil {
		return nil, err
	}
	if _, _, _, _, err := p.asleep(ctx); err != nil {
		return nil, err
	}
	var err error
	if p.before, p.goroutines, p.metrics, err = p.now(ctx); err != nil {
		return nil, err
	}
	first, rate, err := p.make(ctx)
	if err != nil {
		return nil, err
	}
	watches, err := p.openWatches(ctx)
	if err != nil {
		return nil, err
	}
	watched, _, _, size, err := p.asleep(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range watches {
		w.close()
	}
	bare, goroutines, lines, _, err := p.asleep(ctx)
	if err != nil {
		return nil, err
	}
	wakes, err := p.wake(ctx)
	if err != nil {
		return nil, err
	}
	awake, err := p.awake(ctx)
	if err != nil {
		return nil, err
	}
	return []float64{first, rate, watched, bare, goroutines, size, median(wakes), slices.Max(wakes), awake, lines}, nil
}

// now returns what the process takes.
func (p *planesHost) now(ctx context.Context) (usage, float64, int, error) {
	if _, err := p.liveHeap(ctx); err != nil { // collects the garbage
		return usage{}, 0, 0, err
	}
	used, err := p.usage()
	if err != nil {
		return usage{}, 0, 0, err
	}
	goroutines, err := p.fixture.goroutines(ctx)
	if err != nil {
		return usage{}, 0, 0, err
	}
	metrics, err := p.do(ctx, http.MethodGet, "/metrics", nil)
	return used, goroutines, bytes.Count(metrics, []byte("\n")), err
}

// put makes a control plane and writes to it.
func (p *planesHost) put(ctx context.Context, i int, spec string) error {
	object := fmt.Sprintf(`{"apiVersion":"planes.kube-hyper-mini.io/v1alpha1","kind":"ControlPlane","metadata":{"name":"plane-%d"},"spec":{%s}}`, i, spec)
	if err := p.discard(ctx, http.MethodPost, planesPath, []byte(object)); err != nil {
		return err
	}
	return p.untilKnown(ctx, func() error {
		return p.discard(ctx, http.MethodPost, planePath(i)+configMapsPath("default"), []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"written"}}`))
	})
}

// untilKnown calls f until the server has seen the object of the control plane, and runs them.
func (p *planesHost) untilKnown(ctx context.Context, f func() error) error {
	for {
		err := f()
		refused := new(statusError)
		if !errors.As(err, &refused) || refused.code != http.StatusNotFound && refused.code != http.StatusServiceUnavailable {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// make returns the median time of those that are made alone, and the number a second of the others.
func (p *planesHost) make(ctx context.Context) (one, rate float64, err error) {
	var times []float64
	for i := range planesAlone {
		start := time.Now()
		if err := p.put(ctx, i, ""); err != nil {
			return 0, 0, err
		}
		times = append(times, since(start))
	}
	began := time.Now()
	err = p.inParallel(ctx, planesClients, p.made-planesAlone, func(ctx context.Context, client *api, i int) error {
		host := planesHost{fixture: fixture{p.cluster, client}}
		return host.put(ctx, planesAlone+i, "")
	})
	return median(times), float64(p.made-planesAlone) / since(began), err
}

func (p *planesHost) openWatches(ctx context.Context) (watches []*watch, err error) {
	for i := range p.made {
		data, err := p.do(ctx, http.MethodGet, planePath(i)+configMapsPath("default"), nil)
		if err != nil {
			return nil, err
		}
		version, err := resourceVersion(data)
		if err != nil {
			return nil, err
		}
		for range planeWatches {
			w, err := p.watch(ctx, planePath(i)+configMapsPath("default"), "allowWatchBookmarks=true&resourceVersion="+version)
			if err != nil {
				return nil, err
			}
			watches = append(watches, w)
		}
	}
	return watches, nil
}

// asleep waits until all sleep, and returns what each takes then.
func (p *planesHost) asleep(ctx context.Context) (memory, goroutines, lines, size float64, err error) {
	awaiting, cancel := context.WithTimeout(ctx, planesTimeout)
	defer cancel()
	for {
		data, err := p.do(awaiting, http.MethodGet, planesPath, nil)
		if err != nil {
			return 0, 0, 0, 0, err
		}
		var list struct {
			Items []struct {
				Status struct {
					Phase     string
					SizeBytes float64
				}
			}
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return 0, 0, 0, 0, err
		}
		awake := 0
		for _, item := range list.Items {
			size = item.Status.SizeBytes
			if item.Status.Phase != "Asleep" {
				awake++
			}
		}
		if awake == 0 {
			break
		}
		if err := pause(awaiting, time.Second); err != nil {
			return 0, 0, 0, 0, fmt.Errorf("%d control planes do not fall asleep: %w", awake, err)
		}
	}
	if err := p.rest(ctx); err != nil {
		return 0, 0, 0, 0, err
	}
	if err := pause(ctx, afterwards); err != nil { // a server returns unused memory within a minute
		return 0, 0, 0, 0, err
	}
	used, running, metrics, err := p.now(ctx)
	return (used.anonymous - p.before.anonymous) / float64(p.made), (running - p.goroutines) / float64(p.made), float64(metrics-p.metrics) / float64(p.made), size, err
}

// wake returns how long the first request to each of some takes.
func (p *planesHost) wake(ctx context.Context) (times []float64, err error) {
	for i := range planesWoken {
		began := time.Now()
		if err := p.discard(ctx, http.MethodGet, planePath(i)+configMapsPath("default")+"/written", nil); err != nil {
			return nil, err
		}
		times = append(times, since(began))
	}
	return times, nil
}

// awake returns the memory of each of some that stay awake.
func (p *planesHost) awake(ctx context.Context) (float64, error) {
	if _, _, _, _, err := p.asleep(ctx); err != nil {
		return 0, err
	}
	before, _, _, err := p.now(ctx)
	if err != nil {
		return 0, err
	}
	for i := range planesAwake {
		if err := p.put(ctx, p.made+i, `"sleepAfter":"1h"`); err != nil {
			return 0, err
		}
	}
	if err := pause(ctx, afterwards); err != nil { // so many do not come to rest as one does
		return 0, err
	}
	after, _, _, err := p.now(ctx)
	return (after.anonymous - before.anonymous) / planesAwake, err
}

// deletion deletes all and returns the time for each.
func (p *planesHost) deletion(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, planesTimeout)
	defer cancel()
	began := time.Now()
	if err := p.discard(ctx, http.MethodDelete, planesPath, nil); err != nil {
		return 0, err
	}
	for {
		data, err := p.do(ctx, http.MethodGet, planesPath, nil)
		if err != nil {
			return 0, err
		}
		if !bytes.Contains(data, []byte(`"name":"plane-`)) {
			return since(began) / float64(p.made+planesAwake+1), nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
