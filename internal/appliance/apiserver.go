package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

const (
	// readyCheck is the name of our check in /readyz.
	readyCheck = "kube-hyper-mini"
	// statusPath serves the status; see status.go.
	statusPath = "/kube-hyper-mini/status"

	readyPoll = 10 * time.Millisecond
)

// apiServers is the chain of API servers with its storage.
type apiServers struct {
	options  *apiserver.Options
	services []config.ServiceEndpoint
	listener net.Listener
	identity *identity
	store    store
	ready    func() error
	before   func(context.Context) error // once the store is readable, before anything is written
	paths    map[string]http.Handler
	log      *slog.Logger

	waiting waiting
	storage *storage.Storage
	server  *apiserver.Server
	cancel  context.CancelFunc
	ended   chan error // what Run returned
	died    chan error
}

// Name implements [Component].
func (a *apiServers) Name() string { return "apiserver" }

// Start implements [Component].
func (a *apiServers) Start(ctx context.Context) error {
	if err := a.store.register(ctx); err != nil {
		return err
	}
	a.storage = storage.New(a.store.connection(), a.options.Storage())
	services, err := endpoints.New(a.services)
	if err != nil {
		a.storage.Close()
		return err
	}
	runCtx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	server, err := apiserver.New(runCtx, a.options, apiserver.Config{
		Listener:  a.listener,
		Storage:   a.storage,
		Files:     a.files(),
		TokenKeys: a.identity.tokenKeys,
		Revoked:   a.identity.store.Revoked,
		Endpoints: services,
		Servers:   a.store.servers(),
		ReadyChecks: []healthz.HealthChecker{
			healthz.NamedCheck(readyCheck, func(*http.Request) error { return a.ready() }),
		},
	})
	if err != nil {
		cancel()
		a.storage.Close()
		return err
	}
	for path, handler := range a.paths {
		server.Handle(path, handler)
	}
	err = a.store.waitReady(ctx)
	if err == nil {
		err = a.before(ctx)
	}
	if err != nil {
		cancel()
		server.Discard()
		a.storage.Close()
		return err
	}
	server.FillCaches(ctx)
	a.serve(runCtx, server)
	if err := a.waitForAPI(ctx); err != nil {
		return errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// serve runs the server in the background.
func (a *apiServers) serve(runCtx context.Context, server *apiserver.Server) {
	a.server, a.ended, a.died = server, make(chan error, 1), make(chan error, 1)
	go func() {
		err := server.Run(runCtx)
		if runCtx.Err() == nil {
			if err == nil {
				err = errors.New("it stopped serving")
			}
			a.died <- err
		}
		a.ended <- err
	}()
}

// waitForAPI makes the bootstrap policy true and waits until the API servers
// are ready for the controllers.
func (a *apiServers) waitForAPI(ctx context.Context) error {
	config := a.server.Loopback()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "bootstrap"))
	if err != nil {
		return fmt.Errorf("make the bootstrap client: %w", err)
	}
	if err := a.poll(ctx, func(ctx context.Context) error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/livez/ping").DoRaw(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("wait for the API server to answer: %w", err)
	}
	// With the feature StorageVersionAPI, writes are refused until the server
	// has published the versions that it stores.
	var installed error
	if err := a.poll(ctx, func(ctx context.Context) error {
		if installed = a.install(ctx, client, config); apierrors.IsServiceUnavailable(installed) {
			return installed
		}
		return nil
	}); err != nil {
		return err
	}
	if installed != nil {
		return installed
	}
	if err := a.poll(ctx, func(ctx context.Context) error {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Param("exclude", readyCheck).DoRaw(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("wait for the API server to be ready: %w", err)
	}
	return nil
}

// install writes, side by side, what every server must have.
func (a *apiServers) install(ctx context.Context, client kubernetes.Interface, config *rest.Config) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if !a.server.Serves(rbacv1.SchemeGroupVersion.WithResource("clusterroles")) {
			return nil // the configuration switched RBAC off
		}
		if err := apiserver.EnsureRBAC(ctx, client, a.log); err != nil {
			return fmt.Errorf("make the bootstrap RBAC policy: %w", err)
		}
		return a.server.AwaitPolicy(ctx)
	})
	group.Go(func() error { return endpoints.Install(ctx, config, a.log) })
	return group.Wait()
}

// poll calls check until it succeeds, the server dies or ctx ends.
func (a *apiServers) poll(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			a.waiting.over()
			return nil
		}
		if ctx.Err() == nil {
			a.waiting.on(a.log, err)
		}
		if apierrors.IsServiceUnavailable(err) {
			// A policy that mutates what is being written needs the schemas:
			// upstream's dispatcher refuses until it has them.
			a.server.WarmUp()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
		case died := <-a.died:
			return died
		case <-ticker.C:
		}
	}
}

// Died implements [Component].
func (a *apiServers) Died() <-chan error { return a.died }

// Stop implements [Component].
func (a *apiServers) Stop(ctx context.Context) error {
	a.cancel()
	select {
	case err := <-a.ended:
		a.storage.Close()
		return err
	case <-ctx.Done():
		return fmt.Errorf("drain requests: %w", context.Cause(ctx))
	}
}
