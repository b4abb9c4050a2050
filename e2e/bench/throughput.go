package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// payload is how many bytes of value are in each object.
const payload = 512

// level is a number of clients with what they do. The creates of all levels
// add up to the 5,000 objects that are listed.
type level struct{ clients, creates, updates, gets, lists int }

var levels = []level{
	{clients: 1, creates: 500, updates: 500, gets: 1000, lists: 20},
	{clients: 16, creates: 2000, updates: 3000, gets: 10000, lists: 48},
	{clients: 64, creates: 2500, updates: 3000, gets: 10000, lists: 128},
}

// The operations, in the order in which they are measured.
var operations = []string{"creates", "updates", "gets", "lists of 5,000"}

// throughputRows has three rows for each operation and level. The target is
// for creates and gets at 16 clients.
func throughputRows(what string, ratios map[string]float64) []row {
	var rows []row
	for _, operation := range operations {
		for _, l := range levels {
			name := fmt.Sprintf("%s, %s, clients: %d", what, operation, l.clients)
			rate := row{name: name + ", per second", unit: plain, higher: true}
			if ratio := ratios[operation]; l.clients == 16 && ratio > 0 {
				rate.ratio = ratio
				rate.reason = "the processor: most of a request is upstream's handlers, which both sides run; what is spared is the way to etcd"
			}
			rows = append(rows, rate, row{name: name + ", p50", unit: inSeconds}, row{name: name + ", p99", unit: inSeconds})
		}
	}
	return rows
}

// request is one of a series.
type request func(i int) (method, path string, body []byte)

// throughput measures all operations on one kind of objects, of a server that
// has done with its start, which is a figure of its own.
func throughput(k kind, prepare func(context.Context, fixture) error) func(context.Context, *bench, side) ([]float64, error) {
	return func(ctx context.Context, b *bench, s side) (values []float64, err error) {
		err = b.withFixture(ctx, s, func(f fixture) error {
			if prepare != nil {
				if err := prepare(ctx, f); err != nil {
					return err
				}
			}
			if err := f.rest(ctx); err != nil {
				return err
			}
			created := 0
			for _, operation := range operations {
				for _, l := range levels {
					send, n, err := series(ctx, f, k, operation, l, created)
					if err != nil {
						return err
					}
					if operation == "creates" {
						created += n
					}
					measured, err := drive(ctx, f, l.clients, n, send)
					if err != nil {
						return err
					}
					values = append(values, measured...)
				}
			}
			return nil
		})
		return values, err
	}
}

// series prepares n requests of an operation at a level. So many objects have
// been created before.
func series(ctx context.Context, f fixture, k kind, operation string, l level, created int) (send request, n int, err error) {
	collection := k.path("default")
	path := func(i int) string { return collection + "/" + objectName(i) }
	switch operation {
	case "creates":
		bodies := make([][]byte, l.creates)
		for i := range bodies {
			bodies[i] = k.make(objectName(created+i), nil, payload)
		}
		return func(i int) (string, string, []byte) { return http.MethodPost, collection, bodies[i] }, l.creates, nil
	case "updates":
		changed, err := changedObjects(ctx, f, collection, l.updates, strconv.Itoa(l.clients))
		return func(i int) (string, string, []byte) { return http.MethodPut, path(i), changed[i] }, l.updates, err
	case "gets":
		return func(i int) (string, string, []byte) { return http.MethodGet, path(i % created), nil }, l.gets, nil
	default:
		return func(int) (string, string, []byte) { return http.MethodGet, collection + "?resourceVersion=0", nil }, l.lists, nil
	}
}

// changedObjects reads the objects and returns the first n with a new label,
// to be written back as a controller would: with the version that was read.
func changedObjects(ctx context.Context, f fixture, collection string, n int, label string) ([][]byte, error) {
	text, err := f.do(ctx, http.MethodGet, collection, nil)
	if err != nil {
		return nil, err
	}
	var list struct{ Items []object }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read the list of %s: %w", collection, err)
	}
	changed := make([][]byte, n)
	for _, item := range list.Items {
		meta, ok := item["metadata"].(object)
		if !ok {
			return nil, fmt.Errorf("an object of %s has no metadata", collection)
		}
		var i int
		if _, err := fmt.Sscanf(fmt.Sprint(meta["name"]), objectFormat, &i); err != nil || i >= n {
			continue // not one of ours, or not to be changed
		}
		meta["labels"] = object{"changed-by": label}
		changed[i] = encode(item)
	}
	return changed, nil
}

// drive sends n requests from so many clients, each with a connection that is
// there, and returns requests per second, median and 99th percentile.
func drive(ctx context.Context, f fixture, clients, n int, send request) ([]float64, error) {
	connected, err := newAPIs(ctx, f.config, clients)
	if err != nil {
		return nil, err
	}
	defer closeAll(connected)
	latencies := make([]float64, n)
	began := time.Now()
	err = spreadOver(ctx, connected, n, func(ctx context.Context, client *api, i int) error {
		method, path, body := send(i)
		sent := time.Now()
		err := client.discard(ctx, method, path, body)
		latencies[i] = since(sent)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []float64{float64(n) / since(began), percentile(latencies, 50), percentile(latencies, 99)}, nil
}
