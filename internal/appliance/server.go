package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
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

// server is the running appliance, with the controllers or without.
type server struct {
	*process
	facts Status

	store       store
	identity    *identity
	api         *apiServers
	controllers *controllerManager  // nil where they run elsewhere
	manifests   *bootstrapManifests // nil without a directory
	events      *events             // once the API is served
	archivist   *archivist
	readySince  atomic.Pointer[time.Time]
}

// Run starts the server and returns when ctx has ended and everything has
// stopped, or when a component has died and the others have stopped.
func Run(ctx context.Context, checked *Checked, log *slog.Logger) error {
	return runServer(ctx, checked, log, true)
}

func runServer(ctx context.Context, checked *Checked, log *slog.Logger, withControllers bool) error {
	p, err := begin(checked.config, log)
	if err != nil {
		return err
	}
	defer p.end()
	listener, err := listen(&p.config.Serving)
	if err != nil {
		return err
	}
	url, err := serverURL(&p.config.Serving, listener.Addr())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s := &server{process: p}
	s.facts = Status{
		Started: p.started, PID: os.Getpid(), Server: url, DataDir: p.dir.Path(),
		Versions: Versions{Server: p.stamp.Version, Kubernetes: p.stamp.Kubernetes, Etcd: p.stamp.Etcd, Go: version.Go()},
	}
	if len(p.config.Etcd.External.Endpoints) == 0 {
		s.facts.Database.QuotaBytes = p.config.Etcd.Embedded.QuotaBackend.Value()
	}
	if withControllers {
		p.announce("kube-hyper-mini")
	} else {
		p.announce("kube-hyper-mini apiserver")
	}
	s.compose(checked, listener, withControllers)
	err = p.live(ctx, s.start, s.serve, s.leave)
	if s.api.server == nil {
		// Until the API server runs, nobody else closes the listener. Closing
		// it a second time fails, which says that all is well.
		_ = listener.Close()
	}
	return err
}

func (s *server) compose(checked *Checked, listener net.Listener, withControllers bool) {
	s.store = newStore(s.config, s.dir, s.log)
	s.archivist = newArchivist(s.config, s.dir, s.stamp, s.store, s.log)
	s.identity = &identity{config: s.config, dir: s.dir, url: s.facts.Server, newIdentity: checked.newIdentity, log: s.log}
	s.api = &apiServers{
		options: checked.options, services: s.config.ServiceEndpoints, listener: listener, identity: s.identity, store: s.store,
		ready: s.notReady, log: s.log,
		before: s.beforeWrites, paths: map[string]http.Handler{statusPath: s, backupPath: onlyPost(s.archivist.endpoint()), defragmentPath: onlyPost(defragmenter{s.store}),
			rotatePath: onlyPost(keyRotator{s}), certificatesPath: onlyPost(certificates{s})},
	}
	if withControllers {
		s.controllers = &controllerManager{workplace: besideTheServer{s.api, s.config.ControllerManager.Controllers, s.log}, log: s.log}
	}
	if s.config.Manifests.Dir != "" {
		s.manifests = &bootstrapManifests{config: s.config.Manifests, api: s.api, log: s.log, once: make(chan struct{})}
	}
}

// beforeWrites is what must be known and done when the store can be read, and
// before anything is written to it.
func (s *server) beforeWrites(ctx context.Context) error {
	if err := s.identity.canDecrypt(ctx, s.store.connection().Client, s.config.Etcd.External.Prefix); err != nil {
		return err
	}
	if err := s.dir.FinishFirstStart(s.stamp); err != nil {
		return err
	}
	return s.archivist.beforeUpgrade(ctx)
}

// leave says that the server is not ready any more.
func (s *server) leave() {
	s.readySince.Store(nil)
	if s.events != nil {
		s.events.stop()
	}
}

func (s *server) start(ctx context.Context) error {
	if err := backup.SweepSpool(s.dir.Path()); err != nil {
		return err
	}
	if err := s.group.start(ctx, s.store, s.identity); err != nil {
		return err
	}
	if err := s.group.start(ctx, s.api); err != nil {
		return err
	}
	if s.controllers != nil {
		if err := s.group.start(ctx, s.controllers); err != nil {
			return err
		}
	}
	events, err := newEvents(s.api.server)
	if err != nil {
		return err
	}
	s.events = events
	if keeper := s.store.maintenance(); keeper != nil {
		keeper.Tell(events.record)
	}
	if s.manifests != nil {
		s.api.server.WarmUp() // they may be of remote servers, or pass policies that mutate
		if err := s.group.start(ctx, s.manifests); err != nil {
			return err
		}
	}
	return s.writeProof(ctx)
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
		if apierrors.ReasonForError(err) == storage.ReasonInsufficientStorage {
			return nil // it reads and deletes, and says that it is not ready
		}
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
	if refusal := s.refusal(); refusal != nil {
		s.log.Warn("up, and not ready", "server", s.facts.Server, "reason", refusal)
	} else {
		s.log.Info("ready", "server", s.facts.Server, "took", s.took())
	}
	s.log.Info("try: kubectl --kubeconfig " + s.config.Kubeconfig.Path + " get namespaces")
	s.ready()
	s.api.server.WarmUp()
	return s.whileServing(ctx, s.api.storage.Health, func(ctx context.Context) { s.archivist.keepSchedule(ctx, s.events) }, keyRotator{s}.resume, s.dropRetired)
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
	return s.refusal()
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
	return bounded(listener), nil
}
