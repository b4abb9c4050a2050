package appliance

import (
	"context"
	"crypto"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/server/healthz"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// readyCheck is the name of our check in /readyz.
const readyCheck = "kube-hyper-mini"

// apiServers is the chain of API servers with its storage.
type apiServers struct {
	options  *apiserver.Options
	config   *config.ServerConfiguration
	listener net.Listener
	identity *identity.Identity
	store    datastore.Datastore
	notReady func() error
	before   func(context.Context) error // once the store is readable, before anything is written
	paths    map[string]http.Handler
	log      *slog.Logger

	tokenKeys *apiserver.TokenKeys
	storage   *storage.Storage
	server    *apiserver.Server // set before it serves
	serves    atomic.Bool       // whether server has come to run, and closes the listener
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

// useTokenKeys has the API server sign and verify service account tokens with the
// keys.
func (a *apiServers) useTokenKeys(signer crypto.Signer, verify []crypto.PublicKey) (err error) {
	if a.tokenKeys != nil {
		return a.tokenKeys.Set(signer, verify)
	}
	a.tokenKeys, err = apiserver.NewTokenKeys(signer, verify)
	return err
}

// build makes the chain while the store starts.
func (a *apiServers) build(ctx context.Context) (*apiserver.Server, error) {
	policy, err := endpoints.NewPolicy(a.config)
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
		Files:     a.files(),
		TokenKeys: a.tokenKeys,
		Revoked:   a.identity.Store().Revoked,
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

// files are what the API server serves and verifies with.
func (a *apiServers) files() apiserver.Files {
	store, cfg := a.identity.Store(), a.config
	files := apiserver.Files{
		ServingCert: store.Cert(pki.APIServer), ServingKey: store.Key(pki.APIServer),
		ClientCAs:      []string{store.Cert(pki.ClientCA)},
		FrontProxyCA:   store.Cert(pki.FrontProxyCA),
		FrontProxyCert: store.Cert(pki.FrontProxy), FrontProxyKey: store.Key(pki.FrontProxy),
		EncryptionConfig: a.identity.GeneratedEncryption(),
	}
	if cfg.Serving.CertFile != "" {
		files.ServingCert, files.ServingKey = cfg.Serving.CertFile, cfg.Serving.KeyFile
	}
	if more := cfg.APIServer.Authentication.ClientCAFile; more != "" {
		files.ClientCAs = append(files.ClientCAs, more)
	}
	return files
}

func controllerFiles(store *pki.Store) controllers.Files {
	return controllers.Files{
		ServerCA:          store.ServerCA(),
		ClientCA:          store.SigningCert(pki.ClientCA),
		ClientCAKey:       store.Key(pki.ClientCA),
		ServiceAccountKey: store.Key(pki.ServiceAccount),
		Changed:           store.Changed,
	}
}
