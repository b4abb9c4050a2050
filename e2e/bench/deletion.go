package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	doomed = "doomed"
	// gcSettle is the time for the garbage collector's informers to see what
	// has been made; nothing tells when they have.
	gcSettle = 2 * time.Second
)

// measureEmptyNamespace deletes a namespace with nothing in it but what the
// controllers put there, on a server with so many CRDs.
func measureEmptyNamespace(crds int) func(context.Context, *bench, side) ([]float64, error) {
	return func(ctx context.Context, b *bench, s side) (values []float64, err error) {
		err = b.withFixture(ctx, s, func(f fixture) error {
			if err := f.defineMany(ctx, crds); err != nil {
				return err
			}
			if err := f.namespace(ctx, doomed); err != nil {
				return err
			}
			values, err = f.deleteNamespace(ctx)
			return err
		})
		return values, err
	}
}

// defineMany makes CRDs and waits until all of them are served.
func (f fixture) defineMany(ctx context.Context, crds int) error {
	err := f.inParallel(ctx, 4, crds, func(ctx context.Context, client *api, i int) error {
		return client.discard(ctx, http.MethodPost, crdsPath, crd(manyName(i)))
	})
	if err != nil {
		return err
	}
	for i := range crds {
		path := widgetsOf(manyName(i)).path("default")
		if err := f.await(ctx, "custom resources to be served", func(ctx context.Context) error {
			return f.discard(ctx, http.MethodGet, path, nil)
		}); err != nil {
			return err
		}
	}
	return nil
}

func manyName(i int) string { return fmt.Sprintf("many%04ds", i) }

// measureFullNamespace deletes a namespace with objects of three types.
func measureFullNamespace(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.withFixture(ctx, s, func(f fixture) error {
		if err := f.define(ctx, "widgets"); err != nil {
			return err
		}
		if err := f.namespace(ctx, doomed); err != nil {
			return err
		}
		for _, content := range []struct {
			kind  kind
			count int
		}{{configMaps, 1000}, {secrets, 500}, {widgets, 500}} {
			if err := f.fill(ctx, content.kind, doomed, content.count, payload, nil); err != nil {
				return err
			}
		}
		values, err = f.deleteNamespace(ctx)
		return err
	})
	return values, err
}

// deleteNamespace measures from the request until the namespace is gone.
func (f fixture) deleteNamespace(ctx context.Context) ([]float64, error) {
	const path = "/api/v1/namespaces"
	return f.untilDeleted(ctx, path, "fieldSelector=metadata.name%3D"+doomed, path+"/"+doomed, 1, encode(object{}))
}

// untilDeleted deletes an object and measures how long it takes until a watch
// of a collection has seen n objects go.
func (f fixture) untilDeleted(ctx context.Context, collection, query, path string, n int, options []byte) ([]float64, error) {
	list, err := f.do(ctx, http.MethodGet, collection+"?limit=1", nil)
	if err != nil {
		return nil, err
	}
	version, err := resourceVersion(list)
	if err != nil {
		return nil, err
	}
	watcher, err := newAPI(f.config)
	if err != nil {
		return nil, err
	}
	defer watcher.close()
	w, err := watcher.watch(ctx, collection, query+"&resourceVersion="+version)
	if err != nil {
		return nil, err
	}
	defer w.close()
	began := time.Now()
	if err := f.discard(ctx, http.MethodDelete, path, options); err != nil {
		return nil, err
	}
	if err := w.awaitDeleted(n); err != nil {
		return nil, err
	}
	return []float64{since(began)}, nil
}

// measureCollection deletes an owner of 2,000 objects and measures until it and all of
// them are gone.
func measureCollection(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.withFixture(ctx, s, func(f fixture) error {
		const dependents = 2000
		owner, err := f.makeOwner(ctx, true)
		if err != nil {
			return err
		}
		if err := f.fill(ctx, configMaps, doomed, dependents, 0, []object{owner}); err != nil {
			return err
		}
		if err := pause(ctx, gcSettle); err != nil {
			return err
		}
		path := configMapsPath(doomed)
		values, err = f.untilDeleted(ctx, path, "", path+"/owner", dependents+1, inBackground())
		return err
	})
	return values, err
}

// makeOwner makes the namespace and in it a config map to be owned by, and
// returns the reference to it.
func (f fixture) makeOwner(ctx context.Context, block bool) (object, error) {
	if err := f.namespace(ctx, doomed); err != nil {
		return nil, err
	}
	created, err := f.do(ctx, http.MethodPost, configMapsPath(doomed), configMap("owner", "", nil, 0))
	if err != nil {
		return nil, err
	}
	return ownerReference(created, "ConfigMap", block)
}

// inBackground are options of a deletion.
func inBackground() []byte {
	return encode(object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
}

// measureYoungCustomResource makes an object of a type that is a second old
// and deletes its owner.
func measureYoungCustomResource(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.withFixture(ctx, s, func(f fixture) error {
		owner, err := f.makeOwner(ctx, false)
		if err != nil {
			return err
		}
		if _, err := f.do(ctx, http.MethodPost, crdsPath, crd("widgets")); err != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		if err := f.await(ctx, "a custom resource to be made", func(ctx context.Context) error {
			return f.discard(ctx, http.MethodPost, widgets.path(doomed), widgets.make("owned", []object{owner}, 0))
		}); err != nil {
			return err
		}
		values, err = f.untilDeleted(ctx, widgets.path(doomed), "", configMapsPath(doomed)+"/owner", 1, inBackground())
		return err
	})
	return values, err
}
