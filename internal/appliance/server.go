package appliance

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// server is the whole control plane, or an API server without controllers.
type server struct {
	*process
	url   string // of the API, for clients
	local string // of the API on this machine, if url leads there by another way

	options     *apiserver.Options
	listener    *apiserver.Listener
	store       datastore.Datastore
	journal     *journal.Writer // nil without a journal
	backups     *backup.Maker
	identity    *identity.Identity
	tokenKeys   *apiserver.TokenKeys
	storage     *storage.Storage
	api         *apiserver.Server   // set before it serves
	controllers *controllers.Runner // nil where they run in another process
	manifests   atomic.Pointer[manifests.Applier]
	rotator     *admin.KeyRotator
	readySince  atomic.Pointer[time.Time]
}

// Run starts the server and returns when ctx has ended and everything has
// stopped, or when a part has failed and the others have stopped.
func Run(ctx context.Context, checked *Checked, log *slog.Logger) error {
	return runServer(ctx, checked, log, "kube-hyper-mini", &controllers.Runner{})
}

// runServer locks the data directory, takes the port, makes the parts, and has the
// supervisor start and stop them. runner is nil where the controllers run in another
// process.
func runServer(ctx context.Context, checked *Checked, log *slog.Logger, name string, runner *controllers.Runner) error {
	p, err := newProcess(checked, log)
	if err != nil {
		return err
	}
	if err = parts.RestoreIfEmpty(ctx, checked.config, log); err == nil {
		err = p.lock()
	}
	if err != nil {
		return err
	}
	defer p.end()
	listener, err := p.listen()
	if err != nil {
		return err
	}
	defer listener.Release()
	s := &server{process: p, options: checked.options, listener: listener, tokenKeys: apiserver.NewTokenKeys(),
		controllers: runner}
	if !p.extension.InProcess {
		if s.url, s.local, err = identity.URLs(&p.config.Serving, listener.Addr()); err != nil {
			return err
		}
	}
	p.announce(name)
	if err := s.compose(); err != nil {
		return err
	}
	return p.run(ctx, hooks{start: s.start, ready: s.ready, healthy: s.healthy, stopping: s.stopping})
}

// compose makes the parts. It starts nothing.
func (s *server) compose() (err error) {
	s.store = datastore.New(parts.Datastore(s.config, s.dir, s.log))
	if !s.extension.InProcess { // else it is one of many in a program, as in planes, which warns once
		for _, field := range parts.OnOneDisk(s.config) {
			parts.WarnOfDisk(s.log, field)
		}
	}
	s.backups = parts.Backups(s.config, s.dir, s.stamp, s.store, s.log)
	if s.journal, err = parts.JournalWriter(s.config, s.dir, s.stamp, s.store, s.backups, s.controllers.Lead,
		s.log); err != nil {
		return err
	}
	keys := parts.Identity(s.config, s.dir, s.extension.NewIdentity, s.log)
	keys.URL, keys.LocalURL, keys.Reserve, keys.UseTokenKeys = s.url, s.local, s.store.ReserveIdentity, s.tokenKeys.Set
	s.identity = identity.New(keys)
	s.rotator = &admin.KeyRotator{
		ConfigFile: s.config.APIServer.Encryption.ConfigFile, File: s.dir.Join("encryption", "config.yaml"),
		Root: s.config.Etcd.External.Prefix, Store: s.store, Backups: s.backups, Log: s.log,
		Ready: func() bool { return s.readySince.Load() != nil },
		Encrypt: func(ctx context.Context, resource schema.GroupResource) ([]byte, error) {
			return s.api.Encrypt(ctx, resource)
		},
	}
	return nil
}

// start starts the parts in this order. Parts of one Start call start side by side.
// When it returns, the server is ready.
func (s *server) start(ctx context.Context) error {
	if err := backup.SweepSpool(s.dir.Path()); err != nil {
		return err
	}
	if err := s.backupBeforeUpgrade(ctx); err != nil {
		return err
	}
	if err := s.supervisor.Start(ctx, lifecycle.Part{Name: "etcd", Run: s.store.Run},
		lifecycle.Part{Name: "identity", Run: s.identity.Run}); err != nil {
		return err
	}
	// It stops after the API server, and so writes the last change.
	if s.journal != nil {
		if err := s.supervisor.Start(ctx, lifecycle.Part{Name: "journal", Run: s.journal.Run}); err != nil {
			return err
		}
	}
	if err := s.supervisor.Start(ctx, lifecycle.Part{Name: "apiserver", Run: s.runAPIServer}); err != nil {
		return err
	}
	if run := s.extension.WhileServing; run != nil {
		if err := s.supervisor.Start(ctx, lifecycle.Part{Name: "program", Run: func(ctx context.Context, ready func()) error {
			return apiserver.Call(func() error { return run(ctx, ready) })
		}}); err != nil {
			return err
		}
	}
	if s.controllers != nil {
		if err := s.supervisor.Start(ctx, lifecycle.Part{Name: "controllers", Run: s.runControllers}); err != nil {
			return err
		}
	}
	if s.config.Manifests.Dir != "" {
		if err := s.startManifests(ctx); err != nil {
			return err
		}
	}
	if err := s.startExtension(ctx); err != nil {
		return err
	}
	if err := s.api.ProveWrite(ctx, s.started); err != nil {
		return err
	}
	if err := s.store.RecordRelease(ctx, s.stamp); err != nil {
		s.log.Warn("recording this release in etcd failed: older releases will not refuse to start on it", "error", err)
	}
	return nil
}

// ready announces readiness and starts the background work of a ready server.
func (s *server) ready(ctx context.Context) {
	now := time.Now()
	s.readySince.Store(&now)
	s.running = Running{Server: s.url, Kubeconfig: s.config.Kubeconfig.Path, Client: s.api.Loopback(),
		Objects: s.storage.CountAll, Compact: s.storage.Compact}
	if refusal := s.store.Maintenance().Refusal(); refusal != "" {
		s.log.Warn("ready for reads and deletions only", "server", s.url, "reason", refusal)
	} else {
		s.log.Info("ready", "server", s.url, "took", s.took())
	}
	if !s.extension.InProcess {
		if address := s.config.Serving.BindAddress; !net.ParseIP(address).IsLoopback() {
			s.log.Info("other machines can connect, see \"kube-hyper-mini help network\"", "address", address)
		}
		s.log.Info("try: kubectl --kubeconfig " + logging.ShellWord(s.config.Kubeconfig.Path) + " get namespaces")
	}
	if s.store.Shared() || s.config.APIServer.Admission.ConfigFile != "" {
		s.api.BuildOpenAPI() // policies that another server stores, or that files have, may mutate
	}
	s.supervisor.Go(ctx, "backups", s.backups.KeepSchedule)
	s.supervisor.Go(ctx, "key rotation", s.rotator.Resume)
	s.supervisor.Go(ctx, "retired authorities",
		func(ctx context.Context) { s.identity.DropRetired(ctx, s.api.Loopback()) })
}

// stopping is called before the supervisor stops the parts, the last started one
// first.
func (s *server) stopping() {
	s.readySince.Store(nil)
}

// runControllers is the Run of the controllers' part.
func (s *server) runControllers(ctx context.Context, ready func()) error {
	files := controllers.NewFiles(s.identity.Certificates())
	files.ServerCA = cmp.Or(s.extension.RootCAFile, files.ServerCA)
	return s.controllers.Run(ctx, controllers.Config{
		Client: s.api.Loopback(), FullRights: !s.api.RBAC(),
		Informers:  s.api.Informers(),
		Types:      s.api,
		HasObjects: s.storage.HasObjects,
		Population: s.storage.Population(),
		Files:      files,
		Elect:      s.store.Shared(), LockID: s.dir.LockID(),
		Alone: s.store.Alone, AfterWrites: s.api.AfterWrites,
		Selection: s.config.ControllerManager.Controllers,
		Log:       s.log,
	}, ready)
}

// startManifests applies the manifests. They may be of types of remote servers, or
// match policies that mutate: both need OpenAPI.
func (s *server) startManifests(ctx context.Context) error {
	s.api.BuildOpenAPI()
	applier, err := manifests.New(manifests.Config{
		Dir: s.config.Manifests.Dir, Prune: s.config.Manifests.Prune, WaitForReady: s.config.Manifests.WaitForReady,
		Required: s.config.Manifests.Required,
		Client:   s.api.Loopback(), Log: s.log,
	})
	if err != nil {
		return err
	}
	s.manifests.Store(applier)
	return s.supervisor.Start(ctx, lifecycle.Part{Name: "manifests", Run: applier.Run})
}
