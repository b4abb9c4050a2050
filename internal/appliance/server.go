package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

// Checked is a configuration that has passed every check there is without
// starting anything.
type Checked struct {
	config  *config.ServerConfiguration
	options *apiserver.Options
}

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

// server is the running appliance.
type server struct {
	config *config.ServerConfiguration
	log    *slog.Logger
	facts  Status
	group  *group
	notify notifier

	store       store
	identity    *identity
	api         *apiServers
	controllers *controllerManager
	manifests   *bootstrapManifests // nil without a directory
	events      *events             // once the API is served
	archivist   *archivist
	readySince  atomic.Pointer[time.Time]
}

// Run starts the server and returns when ctx has ended and everything has
// stopped, or when a component has died and the others have stopped.
func Run(ctx context.Context, checked *Checked, log *slog.Logger) error {
	debug.SetGCPercent(startGC)
	notify, err := takeNotifier()
	if err != nil {
		return err
	}
	cfg := checked.config
	stamp := currentStamp()
	dir, err := datadir.Open(cfg.DataDir, stamp)
	if err != nil {
		return err
	}
	defer func() {
		if err := dir.Close(); err != nil {
			log.Error("giving the data directory back failed", "error", err)
		}
	}()
	listener, err := listen(&cfg.Serving)
	if err != nil {
		return err
	}
	url, err := serverURL(&cfg.Serving, listener.Addr())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s := &server{config: cfg, log: log, group: newGroup(log), notify: notify}
	logging.OnFatal(s.group.fatal)
	defer context.AfterFunc(ctx, logging.Stopping)()
	s.facts = Status{
		Started: time.Now(), PID: os.Getpid(), Server: url, DataDir: dir.Path(),
		Versions: Versions{Server: stamp.Version, Kubernetes: stamp.Kubernetes, Etcd: stamp.Etcd, Go: version.Go()},
		Database: Database{QuotaBytes: cfg.Etcd.Embedded.QuotaBackend.Value()},
	}
	log.Info("kube-hyper-mini starts", "version", stamp.Version, "kubernetes", stamp.Kubernetes, "etcd", stamp.Etcd, "pid", s.facts.PID)
	log.Info("data directory", "path", dir.Path(), "new", dir.Previous == nil)
	s.compose(checked, dir, listener)
	err = s.live(ctx, dir, stamp)
	// Until the API server runs, nobody else closes the listener. Closing it
	// a second time fails, which says that all is well.
	_ = listener.Close()
	return err
}

func (s *server) compose(checked *Checked, dir *datadir.Dir, listener net.Listener) {
	s.store = newStore(s.config, dir, s.log)
	s.archivist = newArchivist(s.config, dir, currentStamp(), s.store, s.log)
	s.identity = &identity{config: s.config, dir: dir, url: s.facts.Server, log: s.log}
	s.api = &apiServers{
		options: checked.options, services: s.config.ServiceEndpoints, listener: listener, identity: s.identity, store: s.store,
		prefix: s.config.Etcd.External.Prefix, ready: s.notReady, log: s.log,
		before: s.archivist.beforeUpgrade, paths: map[string]http.Handler{statusPath: s, backupPath: s.archivist},
	}
	s.controllers = &controllerManager{api: s.api, selection: s.config.ControllerManager.Controllers, log: s.log}
	if s.config.Manifests.Dir != "" {
		s.manifests = &bootstrapManifests{config: s.config.Manifests, api: s.api, log: s.log, once: make(chan struct{})}
	}
}

// live is the life between the lock and the unlock.
func (s *server) live(ctx context.Context, dir *datadir.Dir, stamp datadir.Stamp) error {
	err := s.start(ctx, dir, stamp)
	switch {
	case err != nil && ctx.Err() != nil:
		s.log.Info("stopped during the start")
		err = nil
	case err == nil:
		err = s.serve(ctx)
	}
	began := time.Now()
	logging.Stopping()
	if notifyErr := s.notify.send("STOPPING=1"); notifyErr != nil {
		s.log.Warn("the service manager does not listen", "error", notifyErr)
	}
	s.readySince.Store(nil)
	if s.events != nil {
		s.events.stop()
	}
	err = errors.Join(err, s.group.stop())
	s.log.Info("stopped", "took", time.Since(began).Round(time.Millisecond).String())
	return err
}

func (s *server) start(ctx context.Context, dir *datadir.Dir, stamp datadir.Stamp) error {
	if err := backup.SweepSpool(dir.Path()); err != nil {
		return err
	}
	if err := s.group.start(ctx, s.store, s.identity); err != nil {
		return err
	}
	if err := s.group.start(ctx, s.api); err != nil {
		return err
	}
	if err := s.group.start(ctx, s.controllers); err != nil {
		return err
	}
	events, err := newEvents(s.api.server)
	if err != nil {
		return err
	}
	s.events = events
	if s.manifests != nil {
		if err := s.group.start(ctx, s.manifests); err != nil {
			return err
		}
	}
	if err := s.writeProof(ctx); err != nil {
		return err
	}
	return dir.WriteStamp(stamp)
}

// startedAnnotation on kube-system says when the server that is running began.
const startedAnnotation = "kube-hyper-mini.io/started"

// writeProof makes the authenticated write that readiness stands for, on the
// one object that every configuration has.
func (s *server) writeProof(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.api.server.Loopback())
	if err != nil {
		return fmt.Errorf("make the client for the first write: %w", err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, startedAnnotation, s.facts.Started.UTC().Format(time.RFC3339))
	err = s.api.poll(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Patch(ctx, metav1.NamespaceSystem, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("make the first write: %w", err)
	}
	return nil
}

// serve announces readiness and waits for the end.
func (s *server) serve(ctx context.Context) error {
	now := time.Now()
	s.readySince.Store(&now)
	s.log.Info("ready", "server", s.facts.Server, "took", now.Sub(s.facts.Started).Round(time.Millisecond).String())
	s.log.Info("try: kubectl --kubeconfig " + s.config.Kubeconfig.Path + " get namespaces")
	if err := s.notify.send("READY=1"); err != nil {
		s.log.Warn("the service manager does not listen", "error", err)
	}
	background, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		s.notify.feed(background, s.api.storage.Health, func(err error) { s.log.Warn("not telling the watchdog that all is well", "error", err) })
	})
	running.Go(func() { releaseStartMemory(background, s.log) })
	running.Go(func() { s.archivist.keepSchedule(background, s.events) })
	defer func() {
		stop()
		running.Wait()
	}()
	select {
	case <-ctx.Done():
		s.log.Info("stopping")
		return nil
	case err := <-s.group.died:
		return err
	}
}

// notReady says why the server is not ready, or nothing.
func (s *server) notReady() error {
	if s.readySince.Load() == nil {
		if s.manifests != nil {
			if err := s.manifests.lastFailure(); err != nil {
				return fmt.Errorf("the manifests are not applied: %w", err)
			}
		}
		if reason := s.api.waiting.what(); reason != "" {
			return errors.New("it is still starting and waits for " + reason)
		}
		return errors.New("the controllers do not run yet, or not any more")
	}
	return nil
}

// listen takes the port before anything is written.
func listen(serving *config.Serving) (net.Listener, error) {
	address := net.JoinHostPort(serving.BindAddress, strconv.Itoa(serving.Port))
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is taken by another program: stop it, or choose another port with --port (0 takes a free one)", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is not an address of this machine: set serving.bindAddress to one that is, or to 0.0.0.0", serving.BindAddress)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("%s may not be used by this user: choose a port above 1023 with --port", address)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}
