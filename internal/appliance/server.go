package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
	"kube-hyper-mini.io/kube-hyper-mini/internal/memory"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

// Checked is a configuration that has passed every check there is without
// starting anything.
type Checked struct {
	config  *config.ServerConfiguration
	options *apiserver.Options
	// newIdentity: see AllowNewIdentity.
	newIdentity bool
}

// AllowNewIdentity has a used data directory given the authorities and token
// keys that it lacks. Without it, such a directory is refused.
func (c *Checked) AllowNewIdentity() { c.newIdentity = true }

// Check completes and validates the configuration with all that the server
// knows. It writes nothing. Feature gates are process globals, so that a
// process can check one configuration only.
func Check(cfg *config.ServerConfiguration) (*Checked, error) {
	if err := cfg.Complete(); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if _, err := controllers.Select(cfg.ControllerManager.Controllers); err != nil {
		return nil, &config.FieldError{Path: "controllerManager.controllers", Message: err.Error()}
	}
	options, err := apiserver.NewOptions(cfg)
	if err != nil {
		return nil, err
	}
	return &Checked{config: cfg, options: options}, nil
}

// server is the whole control plane, or an API server without controllers.
type server struct {
	*process
	facts Status

	store       datastore.Datastore
	identity    *identity
	api         *apiServers
	controllers *controllers.Runner // nil where they run elsewhere
	manifests   atomic.Pointer[manifests.Applier]
	events      *events // once the API is served
	archivist   *archivist
	readySince  atomic.Pointer[time.Time]
}

// Run starts the server and returns when ctx has ended and everything has
// stopped, or when a part has failed and the others have stopped.
func Run(ctx context.Context, checked *Checked, log *slog.Logger) error {
	return runServer(ctx, checked, log, true)
}

func runServer(ctx context.Context, checked *Checked, log *slog.Logger, withControllers bool) error {
	p, err := begin(checked.config, log)
	if err != nil {
		return err
	}
	defer p.end()
	listener, err := apiserver.Listen(&p.config.Serving)
	if err != nil {
		return err
	}
	s := &server{process: p, api: &apiServers{listener: listener}}
	defer s.api.closeListener()
	url, err := serverURL(&p.config.Serving, listener.Addr())
	if err != nil {
		return err
	}
	s.facts = Status{
		Started: p.started, PID: os.Getpid(), Server: url, DataDir: p.dir.Path(),
		Versions: Versions{Server: p.stamp.Version, Kubernetes: p.stamp.Kubernetes, Etcd: p.stamp.Etcd, Go: version.Go()},
	}
	if len(p.config.Etcd.External.Endpoints) == 0 {
		s.facts.Database.QuotaBytes = p.config.Etcd.Embedded.QuotaBackend.Value()
	}
	if withControllers {
		s.controllers = &controllers.Runner{}
		p.announce("kube-hyper-mini")
	} else {
		p.announce("kube-hyper-mini apiserver")
	}
	s.compose(checked)
	return p.run(ctx, life{start: s.start, ready: s.ready, healthy: s.healthy, stopping: s.stopping})
}

// compose makes the parts that are needed before the API server is.
func (s *server) compose(checked *Checked) {
	s.store = datastore.New(s.config, s.dir, s.log)
	s.archivist = newArchivist(s.config, s.dir, s.stamp, s.store, s.log)
	s.identity = &identity{config: s.config, dir: s.dir, url: s.facts.Server, newIdentity: checked.newIdentity, log: s.log}
	s.api.options, s.api.services, s.api.log = checked.options, s.config.ServiceEndpoints, s.log
	s.api.identity, s.api.store = s.identity, s.store
	s.api.notReady, s.api.before = s.notReady, s.beforeWrites
	s.api.paths = map[string]http.Handler{
		statusPath: s, backupPath: onlyPost(s.archivist.endpoint()), defragmentPath: onlyPost(defragmenter{s.store}),
		rotatePath: onlyPost(keyRotator{s}), certificatesPath: onlyPost(certificates{s}),
	}
}

// start brings the parts up, stage by stage.
func (s *server) start(ctx context.Context) error {
	if err := backup.SweepSpool(s.dir.Path()); err != nil {
		return err
	}
	err := s.supervisor.Start(ctx, lifecycle.Part{Name: "etcd", Run: s.store.Run}, lifecycle.Part{Name: "identity", Run: s.identity.run})
	if err != nil {
		return err
	}
	if err := s.supervisor.Start(ctx, lifecycle.Part{Name: "apiserver", Run: s.api.run}); err != nil {
		return err
	}
	if s.controllers != nil {
		if err := s.supervisor.Start(ctx, lifecycle.Part{Name: "controllers", Run: s.runControllers}); err != nil {
			return err
		}
	}
	if s.events, err = newEvents(s.api.server); err != nil {
		return err
	}
	if keeper := s.store.Maintenance(); keeper != nil {
		keeper.Tell(s.events.record)
	}
	if s.config.Manifests.Dir != "" {
		if err := s.startManifests(ctx); err != nil {
			return err
		}
	}
	return s.api.server.ProveWrite(ctx, s.started)
}

// beforeWrites is what must be known and done when the store can be read, and
// before anything is written to it.
func (s *server) beforeWrites(ctx context.Context) error {
	if err := s.identity.canDecrypt(ctx, s.store.Connection().Client, s.config.Etcd.External.Prefix); err != nil {
		return err
	}
	if err := s.dir.FinishFirstStart(s.stamp); err != nil {
		return err
	}
	return s.archivist.beforeUpgrade(ctx)
}

func (s *server) runControllers(ctx context.Context, ready func()) error {
	return s.controllers.Run(ctx, controllers.Config{
		Client: s.api.server.Loopback(), FullRights: !s.api.server.RBAC(),
		Informers:  s.api.server.Informers(),
		Types:      s.api.server,
		Content:    s.api.storage,
		Population: s.api.storage.NewPopulation(s.log),
		Files:      controllerFiles(s.identity.store),
		Elect:      s.store.Servers() > 1,
		Alone:      s.store.Alone, AfterWrites: s.api.server.AfterWrites,
		Selection: s.config.ControllerManager.Controllers,
		Log:       s.log,
	}, ready)
}

func (s *server) startManifests(ctx context.Context) error {
	s.api.server.WarmUp() // manifests may be of remote servers, or pass policies that mutate
	applier, err := manifests.New(manifests.Config{
		Dir: s.config.Manifests.Dir, Prune: s.config.Manifests.Prune, WaitForReady: s.config.Manifests.WaitForReady,
		Client: s.api.server.Loopback(), Log: s.log,
	})
	if err != nil {
		return err
	}
	s.manifests.Store(applier)
	return s.supervisor.Start(ctx, lifecycle.Part{Name: "manifests", Run: applier.Run})
}

// ready announces readiness and starts what works for a ready server.
func (s *server) ready(ctx context.Context) {
	now := time.Now()
	s.readySince.Store(&now)
	if refusal := s.refusal(); refusal != nil {
		s.log.Warn("up, and not ready", "server", s.facts.Server, "reason", refusal)
	} else {
		s.log.Info("ready", "server", s.facts.Server, "took", s.took())
	}
	s.log.Info("try: kubectl --kubeconfig " + s.config.Kubeconfig.Path + " get namespaces")
	s.api.server.WarmUp()
	s.supervisor.Go(ctx, "memory", memory.Return)
	s.supervisor.Go(ctx, "backups", func(ctx context.Context) { s.archivist.keepSchedule(ctx, s.events) })
	s.supervisor.Go(ctx, "key rotation", keyRotator{s}.resume)
	s.supervisor.Go(ctx, "retired authorities", s.dropRetired)
}

func (s *server) healthy(ctx context.Context) error { return s.api.storage.Health(ctx) }

// stopping is called before the parts are stopped.
func (s *server) stopping() {
	s.readySince.Store(nil)
	if s.events != nil {
		s.events.stop()
	}
}

// notReady says why the server is not ready, or nothing.
func (s *server) notReady() error {
	if s.readySince.Load() == nil {
		if applier := s.manifests.Load(); applier != nil {
			if err := applier.Failure(); err != nil {
				return fmt.Errorf("the manifests are not applied: %w", err)
			}
		}
		if reason := s.api.server.WaitsFor(); reason != "" {
			return errors.New("it is still starting and waits for " + reason)
		}
		return errors.New("the controllers do not run yet, or not any more")
	}
	return s.refusal()
}
