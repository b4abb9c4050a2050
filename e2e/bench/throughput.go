package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	payload    = 512  // bytes in each object
	population = 5000 // objects that are listed
)

// level is a number of clients with what they do. The creates of all levels
// add up to the population.
type level struct{ clients, creates, others, lists int }

var levels = []level{
	{clients: 1, creates: 500, others: 500, lists: 20},
	{clients: 16, creates: 2000, others: 3000, lists: 48},
	{clients: 64, creates: 2500, others: 3000, lists: 128},
}

// The operations, in the order in which they are measured.
var operations = []string{"creates", "updates", "gets", "lists of 5,000"}

// throughputRows has three rows for each operation and level. The target is
// for creates and gets at 16 clients.
func throughputRows(what string, ratio float64) []row {
	var rows []row
	for _, operation := range operations {
		for _, l := range levels {
			name := fmt.Sprintf("%s, %s, clients: %d", what, operation, l.clients)
			rate := row{name: name + ", per second", unit: plain, higher: true}
			if l.clients == 16 && (operation == "creates" || operation == "gets") {
				rate.ratio = ratio
			}
			rows = append(rows, rate, row{name: name + ", p50", unit: inSeconds}, row{name: name + ", p99", unit: inSeconds})
		}
	}
	return rows
}

// request is one of a series.
type request func(i int) (method, path string, body []byte)

// throughput measures all operations on one kind of objects.
func throughput(k kind, prepare func(context.Context, fixture) error) func(context.Context, *bench, side) ([]float64, error) {
	return func(ctx context.Context, b *bench, s side) (values []float64, err error) {
		err = b.withFixture(ctx, s, func(f fixture) error {
			if prepare != nil {
				if err := prepare(ctx, f); err != nil {
					return err
				}
			}
			collection := k.path("default")
			created := 0
			for _, operation := range operations {
				for _, l := range levels {
					n, first := l.others, created
					var send request
					switch operation {
					case "creates":
						n = l.creates
						created += n
						send = func(i int) (string, string, []byte) {
							return http.MethodPost, collection, k.make(objectName(first+i), nil, payload)
						}
					case "updates":
						// Without a resource version, so that no get is part of it.
						send = func(i int) (string, string, []byte) {
							name := objectName(i % population)
							return http.MethodPut, collection + "/" + name, k.make(name, nil, payload+1+l.clients)
						}
					case "gets":
						send = func(i int) (string, string, []byte) {
							return http.MethodGet, collection + "/" + objectName(i%population), nil
						}
					default:
						n = l.lists
						send = func(int) (string, string, []byte) { return http.MethodGet, collection + "?resourceVersion=0", nil }
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

// drive sends n requests from so many clients and returns requests per
// second, median and 99th percentile.
func drive(ctx context.Context, f fixture, clients, n int, send request) ([]float64, error) {
	latencies := make([]float64, n)
	began := time.Now()
	err := inParallel(ctx, f.config, clients, n, func(ctx context.Context, client *api, i int) error {
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
