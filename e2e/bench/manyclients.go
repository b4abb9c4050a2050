package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	listsAtOnce   = 500 // lists at once
	listedObjects = 5000
	watchesAtOnce = 2000 // watches that begin at once
	initialEvents = 1000 // objects that each of them begins with
	ordinaryUser  = "reader"
)

func manyClientsRows(what string) []row {
	return []row{
		{name: what + ", highest anonymous memory", unit: inBytes, limit: 1e9},
		{name: what + ", until all are answered", unit: inSeconds},
		{name: what + ", an administrator's slowest list of namespaces meanwhile", unit: inSeconds, limit: 1},
		{name: what + ", refused with Retry-After and sent again", unit: plain},
		{name: what + ", refused without Retry-After or broken", unit: plain, limit: 0.5},
		{name: what + ", processes that ended", unit: plain, limit: 0.5},
	}
}

// measureLists has many clients of an ordinary user list the same objects at
// once.
func measureLists(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.withFixture(ctx, s, func(f fixture) error {
		if err := f.fill(ctx, configMaps, "default", listedObjects, payload, nil); err != nil {
			return err
		}
		collection := configMapsPath("default")
		values, err = f.manyClients(ctx, listsAtOnce, func(ctx context.Context, client *api) error {
			return client.discard(ctx, http.MethodGet, collection, nil)
		})
		return err
	})
	return values, err
}

// measureWatches has many clients of an ordinary user begin a watch at once,
// and read the objects that it begins with.
func measureWatches(ctx context.Context, b *bench, s side) (values []float64, err error) {
	err = b.withFixture(ctx, s, func(f fixture) error {
		if err := f.fill(ctx, configMaps, "default", initialEvents, payload, nil); err != nil {
			return err
		}
		collection := configMapsPath("default")
		values, err = f.manyClients(ctx, watchesAtOnce, func(ctx context.Context, client *api) error {
			w, err := client.watch(ctx, collection, "resourceVersion=0")
			if err != nil {
				return err
			}
			defer w.close()
			for range initialEvents {
				if _, err := w.next(); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
	return values, err
}

// manyClients sends n requests at once, each over a connection of its own, and
// returns the values of manyClientsRows.
func (f fixture) manyClients(ctx context.Context, n int, send func(context.Context, *api) error) ([]float64, error) {
	if err := f.admit(ctx, ordinaryUser, "view"); err != nil {
		return nil, err
	}
	if err := f.rest(ctx); err != nil {
		return nil, err
	}
	clients, err := newAPIs(ctx, f.config, n)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	if err := f.resetPeaks(); err != nil {
		return nil, err
	}
	administrator, err := startProbe(ctx, f.kubeconfig, "")
	if err != nil {
		return nil, err
	}
	var retried, broken atomic.Int64
	began := time.Now()
	work, workCtx := errgroup.WithContext(ctx)
	for _, client := range clients {
		client.user = ordinaryUser
		work.Go(func() error {
			for {
				err := send(workCtx, client)
				var refused *statusError
				if errors.As(err, &refused) && refused.retryAfter > 0 {
					retried.Add(1)
					select {
					case <-workCtx.Done():
						return workCtx.Err()
					case <-time.After(refused.retryAfter):
						continue
					}
				}
				if err != nil && workCtx.Err() == nil {
					broken.Add(1)
				}
				return workCtx.Err()
			}
		})
	}
	err = work.Wait()
	took := since(began)
	_, slowest, probeErr := administrator.stop()
	peak, ended, peakErr := f.peak()
	return []float64{peak, took, slowest, float64(retried.Load()), float64(broken.Load()), ended}, errors.Join(err, probeErr, peakErr)
}

// admit gives a user one of the roles that can read config maps.
func (f fixture) admit(ctx context.Context, user, role string) error {
	body := encode(object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata(user, nil),
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	})
	if err := f.discard(ctx, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body); err != nil {
		return err
	}
	reader := *f.api
	reader.user = user
	return f.await(ctx, "a user's rights", func(ctx context.Context) error {
		return reader.discard(ctx, http.MethodGet, configMapsPath("default")+"?limit=1", nil)
	})
}

// resetPeaks resets the highest memory of all processes.
func (c *cluster) resetPeaks() error {
	for _, stage := range c.stages {
		for _, p := range stage {
			if err := p.resetPeak(); err != nil {
				return err
			}
		}
	}
	return nil
}

// peak is the sum of the highest memory of all processes, in bytes, and how many of
// them have ended by themselves.
func (c *cluster) peak() (sum, ended float64, err error) {
	for _, stage := range c.stages {
		for _, p := range stage {
			if p.running() != nil {
				ended++ // what it took is not known any more
				continue
			}
			peak, err := p.peak()
			if err != nil {
				return 0, 0, err
			}
			sum += peak
		}
	}
	return sum, ended, nil
}
