package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
)

const (
	// leaseName is the lease, in kube-system, of the process that runs the
	// controllers.
	leaseName = "kube-hyper-mini-controllers"
	// The durations are kube-controller-manager's defaults (--leader-elect-*).
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Runner runs the controllers of one process. With [Config.Elect] it runs them while it
// holds the lease. The zero value is ready to use.
type Runner struct {
	names atomic.Pointer[[]string] // nil while no controllers run

	mu      sync.Mutex
	term    context.Context // of the last lease, ends with it; nil before the first
	changed chan struct{}   // closed when term changes; nil until Lead waits
}

// setTerm records the context of the lease.
func (r *Runner) setTerm(term context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term = term
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Lead waits until this process holds the lease. The context that it returns ends with ctx,
// and before another process holds the lease.
func (r *Runner) Lead(ctx context.Context) (context.Context, error) {
	if r == nil {
		return nil, errors.New("this process runs no controllers: only `kube-hyper-mini server` writes a journal")
	}
	for {
		r.mu.Lock()
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		term, changed := r.term, r.changed
		r.mu.Unlock()
		if term != nil && term.Err() == nil {
			leading, cancel := context.WithCancel(ctx)
			context.AfterFunc(term, cancel)
			return leading, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Names lists the controllers that run in this process. It is safe for concurrent
// use; a nil Runner runs none.
func (r *Runner) Names() []string {
	if r == nil {
		return nil
	}
	if names := r.names.Load(); names != nil {
		return slices.Clone(*names)
	}
	return nil
}

// Run runs the controllers until ctx ends. It calls ready when they run or, with
// leader election, when the election starts. When the lease is lost, the controllers
// stop and the election starts again: etcd may have been unreachable for a moment, and
// the API server of this process continues. The end of ctx during the start is not a
// failure of a controller, though their shared informers may end before they are built.
func (r *Runner) Run(ctx context.Context, cfg Config, ready func()) error {
	err := r.runOrElect(ctx, cfg, ready)
	if err != nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

func (r *Runner) runOrElect(ctx context.Context, cfg Config, ready func()) error {
	ready = sync.OnceFunc(ready)
	if !cfg.Elect {
		return r.run(ctx, cfg, ready)
	}
	if cfg.Informers != nil {
		cfg.informersStop = ctx.Done()
	}
	for {
		err := r.runElected(ctx, cfg, ready)
		if ctx.Err() != nil || !errors.Is(err, errLeaseLost) {
			return err
		}
		cfg.Log.Warn("lost the controller lease: its controllers have stopped, trying to acquire it again")
	}
}

// run runs the controllers. If the API server is in another process, it also runs the
// informers and the discovery of its types.
func (r *Runner) run(ctx context.Context, cfg Config, ready func()) error {
	if cfg.Types == nil {
		types, err := newRemoteTypes(ctx, cfg.Client)
		if err != nil {
			return err
		}
		defer types.stop()
		cfg.Types = types
	}
	if cfg.Informers == nil {
		client, err := kubernetes.NewForConfig(cfg.asManager())
		if err != nil {
			return fmt.Errorf("make the client of the informers: %w", err)
		}
		cfg.Informers = informers.NewSharedInformerFactoryWithOptions(client, 0,
			informers.WithTransform(servedtypes.DropUnread))
	}
	if cfg.informersStop == nil {
		cfg.informersStop = ctx.Done()
	}
	defer r.names.Store(nil)
	for {
		err := run(ctx, cfg, func(names []string) {
			r.names.Store(&names)
			ready()
		})
		if ctx.Err() != nil || !errors.Is(err, errRestart) {
			return err
		}
	}
}

// runElected runs the controllers while this process holds the lease. They stop before
// the lease is released, because another process acquires it at once.
func (r *Runner) runElected(ctx context.Context, cfg Config, ready func()) error {
	leading := make(chan struct{})
	elector, err := newElector(cfg, func() { close(leading) })
	if err != nil {
		return err
	}
	election, release := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(election)
		cancel(errLeaseLost)
	}()
	defer func() {
		release()
		<-ended
	}()
	ready()
	select {
	case <-ctx.Done():
	case <-leading:
		cfg.Log.Info("acquired the controller lease")
		term, endTerm := context.WithCancel(ctx)
		defer endTerm()
		r.setTerm(term)
		err = r.run(ctx, cfg, func() {})
	}
	if cause := context.Cause(ctx); errors.Is(cause, errLeaseLost) {
		return cause
	}
	return err
}

// errLeaseLost stops the controllers: another process may hold the lease.
var errLeaseLost = errors.New("lost the controller lease")

func newElector(cfg Config, elected func()) (*leaderelection.LeaderElector, error) {
	client, err := kubernetes.NewForConfig(cfg.Client)
	if err != nil {
		return nil, fmt.Errorf("make the client for the election: %w", err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name for the election: %w", err)
	}
	// A candidate that has the identity of the holder takes the lease as its own.
	identity := hostname + "_" + cmp.Or(cfg.LockID, uuid.NewString())
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Name:            leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { elected() }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configure the election: %w", err)
	}
	return elector, nil
}
