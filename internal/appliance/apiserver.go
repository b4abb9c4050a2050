package appliance

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// apiServers is the chain of API servers with its storage.
type apiServers struct {
	options      *apiserver.Options
	config       *config.ServerConfiguration
	listener     *apiserver.Listener
	identity     *identity.Identity
	store        datastore.Datastore
	notReady     func() error
	beforeWrites func(context.Context) error // called when the store can be read, before the first write
	handlers     map[string]http.Handler     // beside the API, by path
	metrics      []prometheus.Collector
	extensions   apiserver.Extensions
	log          *slog.Logger
	tokenKeys    *apiserver.TokenKeys
	storage      *storage.Storage
	server       *apiserver.Server // set before it serves
}

// run serves until ctx ends and the requests have been drained. It is ready when
// the controllers can start.
func (a *apiServers) run(ctx context.Context, ready func()) error {
	if err := a.store.Register(ctx); err != nil {
		return err
	}
	a.storage = storage.New(a.store.Connection(), a.options.Storage(), a.log)
	defer a.storage.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := a.build(ctx)
	if err != nil {
		return err
	}
	err = a.store.WaitReady(ctx)
	if err == nil {
		err = a.beforeWrites(ctx)
	}
	if err == nil {
		err = server.CreateFirstObjects(ctx)
	}
	if err != nil {
		cancel()
		server.Discard()
		return err
	}
	server.FillCaches(ctx)
	a.server = server
	return server.Run(ctx, ready)
}

// build makes the chain. It does not read from the store, which may still start.
func (a *apiServers) build(ctx context.Context) (*apiserver.Server, error) {
	policy, err := endpoints.NewPolicy(a.config.ServiceEndpointPolicy, a.config.Serving.OnLoopbackOnly())
	if err != nil {
		return nil, err
	}
	services, err := endpoints.New(a.config.ServiceEndpoints, policy)
	if err != nil {
		return nil, err
	}
	server, err := apiserver.New(ctx, a.options, apiserver.Config{
		Listener:  a.listener,
		Storage:   a.storage,
		Files:     a.options.Files(a.identity.Certificates(), a.identity.GeneratedEncryption()),
		TokenKeys: a.tokenKeys,
		Revoked:   a.identity.Certificates().Revoked,
		Endpoints: services,
		Shared:    a.store.Shared(),
		Alone:     a.store.Alone,
		Log:       a.log,
		NotReady:  a.notReady,
		Metrics:   slices.Concat(a.metrics, a.store.Maintenance().Metrics(), services.Metrics()),

		Extensions: a.extensions,
	})
	if err != nil {
		return nil, err
	}
	for path, handler := range a.extensions.Paths {
		server.Handle(path, handler)
	}
	for path, handler := range a.handlers {
		server.Handle(path, handler)
	}
	return server, nil
}
