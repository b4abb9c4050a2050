package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
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
	url string // of the API

	store       datastore.Datastore
	archiver    *backup.Archiver
	identity    *identity.Identity
	api         *apiServers
	controllers *controllers.Runner // nil where they run elsewhere
	manifests   atomic.Pointer[manifests.Applier]
	events      *admin.Events // once the API is served
	rotator     *admin.KeyRotator
	readySince  atomic.Pointer[time.Time]
}

// Run starts the server and returns when ctx has ended and everything has
// stopped, or when a part has failed and the others have stopped.
func Run(ctx context.Context, checked *Checked, log *slog.Logger) error {
	return runServer(ctx, checked, log, "kube-hyper-mini", &controllers.Runner{})
}

// runServer runs the server: it takes the data directory and the port, composes the
// parts, and has the supervisor start and stop them.
func runServer(ctx context.Context, checked *Checked, log *slog.Logger, name string, runner *controllers.Runner) error {
	p, err := begin(checked.config, log)
	if err != nil {
		return err
	}
	defer p.end()
	listener, err := apiserver.Listen(&p.config.Serving)
	if err != nil {
		return err
	}
	s := &server{process: p, controllers: runner, api: &apiServers{listener: listener}}
	defer s.api.closeListener()
	if s.url, err = identity.ServerURL(&p.config.Serving, listener.Addr()); err != nil {
		return err
	}
	p.announce(name)
	s.compose(checked)
	return p.run(ctx, life{start: s.start, ready: s.ready, healthy: s.healthy, stopping: s.stopping})
}

// compose makes what the API server is built from.
func (s *server) compose(checked *Checked) {
	s.store = datastore.New(s.config, s.dir, s.log)
	s.archiver = admin.NewArchiver(s.config, s.dir, s.stamp, s.store, s.log)
	s.identity = identity.New(identity.Config{
		Config: s.config, Dir: s.dir, URL: s.url, AllowNew: checked.newIdentity, UseTokenKeys: s.api.useTokenKeys, Log: s.log,
	})
	s.api.options, s.api.config, s.api.log = checked.options, s.config, s.log
	s.api.identity, s.api.store = s.identity, s.store
	s.api.notReady, s.api.before = s.notReady, s.beforeWrites
	s.rotator = &admin.KeyRotator{
		Config: s.config, Dir: s.dir, Ready: func() bool { return s.readySince.Load() != nil }, Archiver: s.archiver, Store: s.store,
		Encrypt: func(ctx context.Context, resource schema.GroupResource) ([]byte, error) {
			return s.api.server.Encrypt(ctx, resource)
		},
		Log: s.log,
	}
	certificates := &admin.Certificates{Identity: s.identity, Several: s.store.Servers() > 1, ClientCAs: checked.options.ClientCAs}
	s.api.paths = admin.Handlers(s.status, s.archiver.Endpoint(), s.store, s.rotator, certificates)
}

// start brings the parts up, stage by stage.
func (s *server) start(ctx context.Context) error {
	if err := backup.SweepSpool(s.dir.Path()); err != nil {
		return err
	}
	if err := s.beforeOpening(ctx); err != nil {
		return err
	}
	err := s.reading(ctx, func() error {
		return s.supervisor.Start(ctx, lifecycle.Part{Name: "etcd", Run: s.store.Run}, lifecycle.Part{Name: "identity", Run: s.identity.Run})
	})
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
	served := s.api.server.Serves(corev1.SchemeGroupVersion.WithResource("events"))
	if s.events, err = admin.NewEvents(s.api.server.Loopback(), served); err != nil {
		return err
	}
	if keeper := s.store.Maintenance(); keeper != nil {
		keeper.Tell(s.events.Record)
	}
	if s.config.Manifests.Dir != "" {
		if err := s.startManifests(ctx); err != nil {
			return err
		}
	}
	if err := s.api.server.ProveWrite(ctx, s.started); err != nil {
		return err
	}
	if s.external() {
		if err := s.releases().Record(ctx, s.stamp); err != nil {
			s.log.Warn("an older release will not be refused on this etcd", "error", err)
		}
	}
	return nil
}

// releases are those that have written to the external etcd.
func (s *server) releases() *etcd.Releases {
	return etcd.NewReleases(s.store.Connection().Client, s.config.Etcd.External.Prefix)
}

// beforeWrites is what must be known and done when the store can be read, and
// before anything is written to it.
func (s *server) beforeWrites(ctx context.Context) error {
	if s.external() {
		if err := s.releases().Check(ctx, s.stamp); err != nil {
			return err
		}
	}
	if err := s.identity.CanDecrypt(ctx, s.store.Connection().Client, s.config.Etcd.External.Prefix); err != nil {
		return err
	}
	if err := s.dir.FinishFirstStart(s.stamp); err != nil {
		return err
	}
	if s.external() {
		return s.archiver.BeforeUpgrade(ctx)
	}
	return nil
}

func (s *server) runControllers(ctx context.Context, ready func()) error {
	return s.controllers.Run(ctx, controllers.Config{
		Client: s.api.server.Loopback(), FullRights: !s.api.server.RBAC(),
		Informers:  s.api.server.Informers(),
		Types:      s.api.server,
		Content:    s.api.storage,
		Population: s.api.storage.NewPopulation(s.log),
		Files:      controllerFiles(s.identity.Store()),
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
		s.log.Warn("ready for reads and deletions only", "server", s.url, "reason", refusal)
	} else {
		s.log.Info("ready", "server", s.url, "took", s.took())
	}
	s.log.Info("try: kubectl --kubeconfig " + s.config.Kubeconfig.Path + " get namespaces")
	s.api.server.WarmUp()
	s.supervisor.Go(ctx, "memory", memory.Return)
	s.supervisor.Go(ctx, "backups", func(ctx context.Context) { s.archiver.KeepSchedule(ctx, s.events.Record) })
	s.supervisor.Go(ctx, "key rotation", s.rotator.Resume)
	s.supervisor.Go(ctx, "retired authorities", func(ctx context.Context) { s.identity.DropRetired(ctx, s.api.server.Loopback()) })
}

// healthy is for the watchdog. To start a server again does not bring an external
// etcd back, so only the server itself counts there.
func (s *server) healthy(ctx context.Context) error {
	if len(s.config.Etcd.External.Endpoints) > 0 {
		return s.api.server.Ping(ctx)
	}
	return s.api.storage.Health(ctx)
}

// stopping is called before the parts are stopped.
func (s *server) stopping() {
	s.readySince.Store(nil)
	if s.events != nil {
		s.events.Stop()
	}
}

// notReady says why the server is not ready, or nothing. A server whose database is
// full is ready: a load balancer that left it out would cut off the deletions
// that make room. Status, events, metrics and the log say that it refuses writes.
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
	return nil
}

// refusal says why writes are refused, or is nil.
func (s *server) refusal() error {
	if keeper := s.store.Maintenance(); keeper != nil && keeper.Refusal() != "" {
		return errors.New(keeper.Refusal())
	}
	return nil
}

// status is what the server's status is made of.
func (s *server) status() admin.StatusSource {
	facts := admin.Status{
		Started: s.started, PID: os.Getpid(), Server: s.url, DataDir: s.dir.Path(),
		Versions: admin.Versions{Server: s.stamp.Version, Kubernetes: s.stamp.Kubernetes, Etcd: s.stamp.Etcd, Go: version.Go()},
	}
	if len(s.config.Etcd.External.Endpoints) == 0 {
		facts.Database.QuotaBytes = s.config.Etcd.Embedded.QuotaBackend.Value()
	}
	return admin.StatusSource{
		Facts: facts, Parts: s.supervisor.Parts, NotReady: s.notReady,
		ReadySince: func() (since time.Time) {
			if ready := s.readySince.Load(); ready != nil {
				since = *ready
			}
			return since
		},
		Controllers: s.controllers.Names,
		Storage:     s.api.storage, Maintenance: s.store.Maintenance(),
		Backups: s.archiver.Account, Certificates: s.identity.Store().Expiry,
		CustomTypes: s.customTypes,
	}
}

func (s *server) customTypes(ctx context.Context) (admin.CustomTypes, error) {
	types, err := s.api.server.CustomTypes(ctx)
	return admin.CustomTypes(types), err
}
