package appliance

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/server/healthz"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// readyCheck is the name of our check in /readyz.
const readyCheck = "kube-hyper-mini"

// apiServers is the chain of API servers with its storage.
type apiServers struct {
	options  *apiserver.Options
	services []config.ServiceEndpoint
	listener net.Listener
	identity *identity
	store    datastore.Datastore
	notReady func() error
	before   func(context.Context) error // once the store is readable, before anything is written
	paths    map[string]http.Handler
	log      *slog.Logger

	storage *storage.Storage
	server  *apiserver.Server // set before it serves
	serves  atomic.Bool       // whether server has come to run, and closes the listener
}

// closeListener closes the listener unless the server does, which panics when
// another one has closed it (k8s.io/apiserver/pkg/server.RunServer).
func (a *apiServers) closeListener() {
	if !a.serves.Load() {
		_ = a.listener.Close() // nothing was accepted
	}
}

// run serves until ctx ends and the requests have been drained. It is ready when
// the controllers can start.
func (a *apiServers) run(ctx context.Context, ready func()) error {
	if err := a.store.Register(ctx); err != nil {
		return err
	}
	a.storage = storage.New(a.store.Connection(), a.options.Storage())
	defer a.storage.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := a.build(ctx)
	if err != nil {
		return err
	}
	err = a.store.WaitReady(ctx)
	if err == nil {
		err = a.before(ctx)
	}
	if err != nil {
		cancel()
		server.Discard()
		return err
	}
	server.FillCaches(ctx)
	a.server = server
	a.serves.Store(true)
	serving, ctx := errgroup.WithContext(ctx)
	serving.Go(func() error {
		if err := server.Run(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		return errors.New("it stopped serving")
	})
	serving.Go(func() error {
		if err := server.Bootstrap(ctx, readyCheck); err != nil {
			return err
		}
		ready()
		return nil
	})
	return serving.Wait()
}

// build makes the chain while the store starts.
func (a *apiServers) build(ctx context.Context) (*apiserver.Server, error) {
	policy, err := endpoints.NewPolicy(a.identity.config)
	if err != nil {
		return nil, err
	}
	services, err := endpoints.New(a.services, policy)
	if err != nil {
		return nil, err
	}
	server, err := apiserver.New(ctx, a.options, apiserver.Config{
		Listener:  a.listener,
		Storage:   a.storage,
		Files:     a.files(),
		TokenKeys: a.identity.tokenKeys,
		Revoked:   a.identity.store.Revoked,
		Endpoints: services,
		Servers:   a.store.Servers(),
		Log:       a.log,
		ReadyChecks: []healthz.HealthChecker{
			healthz.NamedCheck(readyCheck, func(*http.Request) error { return a.notReady() }),
		},
	})
	if err != nil {
		return nil, err
	}
	for path, handler := range a.paths {
		server.Handle(path, handler)
	}
	return server, nil
}
