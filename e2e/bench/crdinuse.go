package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

const (
	usedTypes   = 30
	usedObjects = 100 // of each type
)

// bareType reports whether objects with metadata only are valid, in a namespace.
func bareType(d definition) bool { return d.namespaced && d.bare }

// coldBareTypes returns the types of [bareType] that the step first-requests leaves.
func coldBareTypes(set []definition) []definition {
	requested := map[string]bool{}
	for _, d := range pick(set, 3*coldTypes+1, bareType) {
		requested[d.name] = true
	}
	return pick(set, len(set), func(d definition) bool { return bareType(d) && !requested[d.name] })
}

// inUse compares types in use, each with its objects and a client that watches, with as
// many objects of the same size in one type that a client watches. That type is in use
// before the first measurement, so that the difference is what the others take beyond their
// objects. It counts anonymous memory, each time after the same rest: the pages of the
// program and of the database that were used meanwhile are in the page cache.
func (r *crdRun) inUse(ctx context.Context) ([]float64, error) {
	chosen := pick(coldBareTypes(r.set), usedTypes+1, anyType)
	if len(chosen) < 2 {
		return nil, errors.New("too few types have objects without a spec")
	}
	one, used := chosen[0], chosen[1:]
	stop, err := r.follow(ctx, one)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := r.createObjects(ctx, one, 0, usedObjects); err != nil {
		return nil, err
	}
	empty, err := r.atRest(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.createObjects(ctx, one, usedObjects, len(used)*usedObjects); err != nil {
		return nil, err
	}
	before, err := r.atRest(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range used {
		stop, err := r.follow(ctx, d)
		if err != nil {
			return nil, err
		}
		defer stop()
		if err := r.createObjects(ctx, d, 0, usedObjects); err != nil {
			return nil, err
		}
	}
	after, err := r.atRest(ctx)
	n := float64(len(used))
	types, objects := (after.memory-before.memory)/n, (before.memory-empty.memory)/n
	return []float64{types, types - objects, (after.goroutines - before.goroutines) / n}, err
}

// follow lists the objects of a type and reads a watch of it, as an informer does, until
// stop is called.
func (r *crdRun) follow(ctx context.Context, d definition) (stop func(), err error) {
	path := d.path(crdNamespace)
	if err := retried(ctx, func() error { return r.discard(ctx, http.MethodGet, path, nil) }); err != nil {
		return nil, err
	}
	w, err := r.watch(ctx, path, "")
	if err != nil {
		return nil, err
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for err == nil {
			_, err = w.next()
		}
	})
	return func() {
		w.close()
		reading.Wait()
	}, nil
}

// atRest is the anonymous memory and the number of goroutines after a minute of rest.
func (r *crdRun) atRest(ctx context.Context) (idleUsage, error) {
	if err := pause(ctx, afterwards); err != nil {
		return idleUsage{}, err
	}
	used, err := r.usage()
	if err != nil {
		return idleUsage{}, err
	}
	goroutines, err := r.goroutines(ctx)
	return idleUsage{memory: used.anonymous, goroutines: goroutines}, err
}

// createObjects creates n objects of a type, which are numbered from first on.
func (r *crdRun) createObjects(ctx context.Context, d definition, first, n int) error {
	return r.inParallel(ctx, crdClients, n, func(ctx context.Context, client *api, i int) error {
		return client.discard(ctx, http.MethodPost, d.path(crdNamespace), d.object(objectName(first+i)))
	})
}
