package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// Of the figure large-crds: the sizes are spread so that most CRDs are small, as in the catalogues
// of clouds.
const (
	largeCRDs        = 2065
	smallestCRD      = 10e3
	largestCRD       = 400e3
	largeCRDsTotal   = 76e6
	largeCRDInterval = 500 * time.Millisecond
)

var largeCRDRows = rowsOf(fmt.Sprintf("%d CRDs of 10 to 400 kB, 76 MB together, while a client lists all twice a second: ", largeCRDs), []row{
	{name: "anonymous memory, highest", unit: inBytes, limit: 600e6},
	{name: "time to create them", unit: inSeconds},
	{name: "lists a second", unit: plain},
	{name: "slowest list", unit: inSeconds},
	{name: "anonymous memory a minute after", unit: inBytes},
})

func measureLargeCRDs(ctx context.Context, b *bench, side side) (values []float64, err error) {
	set := paddedDefinitions()
	err = b.withFixture(ctx, side, func(f fixture) error {
		r := &crdRun{fixture: f, bench: b, side: side, set: set}
		listing, stop := context.WithCancel(ctx)
		defer stop()
		lists, ended := listLog{}, make(chan error, 1)
		go func() { ended <- r.listRepeatedly(listing, &lists) }()
		highest, seconds, err := r.createAll(ctx)
		stop()
		if failure := <-ended; err == nil {
			err = failure
		}
		if err != nil {
			return err
		}
		later, err := r.memoryLater(ctx)
		values = []float64{highest, seconds, float64(lists.count) / seconds, lists.slowest, later}
		return err
	})
	return values, err
}

// listLog is what a client that lists has seen. slowest is in seconds.
type listLog struct {
	count   int
	slowest float64
}

// listRepeatedly lists all CRDs twice a second, one list at a time, until ctx ends.
func (r *crdRun) listRepeatedly(ctx context.Context, log *listLog) error {
	tick := time.NewTicker(largeCRDInterval)
	defer tick.Stop()
	for {
		began := time.Now()
		err := retriedLater(ctx, func() error { return r.discard(ctx, http.MethodGet, crdsPath, nil) })
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list all CRDs: %w", err)
		}
		log.count++
		log.slowest = max(log.slowest, since(began))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// paddedDefinitions makes the CRDs.
func paddedDefinitions() []definition {
	// The mean of u^k for u in 0..1 is 1/(k+1).
	power := (largestCRD-smallestCRD)/(largeCRDsTotal/largeCRDs-smallestCRD) - 1
	var set []definition
	for i := range largeCRDs {
		place := float64(i*997%largeCRDs) + 0.5 // large ones among small ones
		set = append(set, paddedDefinition(i, int(smallestCRD+(largestCRD-smallestCRD)*math.Pow(place/largeCRDs, power))))
	}
	return set
}

// paddedDefinition makes a CRD whose schema has about so many bytes, in properties with
// descriptions.
func paddedDefinition(number, size int) definition {
	const description = 400
	properties := object{}
	for i := range size / (description + 50) {
		text := fmt.Sprintf("Field %d of type %d. ", i, number)
		properties[fmt.Sprintf("field%d", i)] = object{"type": "string", "description": text + strings.Repeat("x", description-len(text))}
	}
	d := definition{
		group: fmt.Sprintf("g%d.padded.example.com", number%40), version: "v1", plural: fmt.Sprintf("padded%dthings", number),
		kind: fmt.Sprintf("Padded%dThing", number), namespaced: true, bare: true,
	}
	d.name = d.plural + "." + d.group
	d.body = encode(object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": d.name},
		"spec": object{
			"group": d.group, "scope": "Namespaced", "names": object{"plural": d.plural, "singular": strings.ToLower(d.kind), "kind": d.kind, "listKind": d.kind + "List"},
			"versions": []any{object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{
				"type": "object", "properties": object{"spec": object{"type": "object", "properties": properties}},
			}}}},
		},
	})
	return d
}
