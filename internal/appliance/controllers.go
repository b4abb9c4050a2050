package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
)

const (
	// controllersLease is held by the server whose controllers run.
	controllersLease = "kube-hyper-mini-controllers"
	// The times are kube-controller-manager's (--leader-elect-*).
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// controllerManager runs the controllers: at once where there is one server,
// and where there are several in the one that holds the lease.
type controllerManager struct {
	workplace workplace
	log       *slog.Logger

	running atomic.Pointer[controllers.Manager] // nil while they do not
	died    chan error

	// Of a server that enters the election. The controllers end before the lease
	// is given back: another server acts as soon as it has it.
	working sync.Mutex         // held while the controllers run
	quit    context.Context    // ends the controllers
	retire  context.CancelFunc // of quit
	cancel  context.CancelFunc // of the election
	ended   chan struct{}
}

// workplace is where controllers find the API servers: in this process or in
// others.
type workplace interface {
	// servers is the number of API servers on the same store.
	servers() int
	// client has full rights.
	client() *rest.Config
	// prepare fills in what depends on the place. release is called when the
	// controllers have ended.
	prepare(ctx context.Context) (cfg controllers.Config, release func(), err error)
}

// besideTheServer is the workplace in the API servers' own process.
type besideTheServer struct {
	api       *apiServers
	selection []string
	log       *slog.Logger
}

func (b besideTheServer) servers() int         { return b.api.store.servers() }
func (b besideTheServer) client() *rest.Config { return b.api.server.Loopback() }

func (b besideTheServer) prepare(context.Context) (controllers.Config, func(), error) {
	return controllers.Config{
		Client:     b.client(),
		FullRights: !b.api.server.RBAC(),
		Informers:  b.api.server.Informers(),
		Types:      b.api.server,
		Content:    b.api.storage,
		Files:      controllerFiles(b.api.identity.store),
		Alone:      b.api.store.alone, AfterWrites: b.api.server.AfterWrites,
		Selection: b.selection,
		Log:       b.log,
	}, func() {}, nil
}

// Name implements [Component].
func (c *controllerManager) Name() string { return "controllers" }

// Start implements [Component]. Of several servers, those that do not lead
// are started when they stand by.
func (c *controllerManager) Start(ctx context.Context) error {
	c.died = make(chan error, 1)
	if c.workplace.servers() > 1 {
		return c.standBy(ctx)
	}
	cfg, _, err := c.workplace.prepare(ctx) // a single server's workplace has nothing to release
	if err != nil {
		return err
	}
	manager, err := controllers.Start(ctx, cfg)
	if err != nil {
		return err
	}
	c.running.Store(manager)
	return nil
}

// standBy enters the election and returns.
func (c *controllerManager) standBy(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.workplace.client())
	if err != nil {
		return fmt.Errorf("make the client for the election: %w", err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this host's name for the election: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: controllersLease},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + uuid.NewString()},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Name:            controllersLease,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: c.lead, OnStoppedLeading: c.waitForWork},
	})
	if err != nil {
		return fmt.Errorf("enter the election: %w", err)
	}
	electionCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.quit, c.retire = context.WithCancel(electionCtx)
	c.cancel, c.ended = cancel, make(chan struct{})
	go func() {
		defer close(c.ended)
		elector.Run(electionCtx)
		if electionCtx.Err() == nil {
			// Another server leads by now. As kube-controller-manager, end
			// rather than work beside it; the service manager starts us anew.
			c.fail(errors.New("the lease on the controllers was lost"))
		}
	}()
	return nil
}

// waitForWork returns when the controllers do not run any more.
func (c *controllerManager) waitForWork() {
	c.working.Lock()
	defer c.working.Unlock()
}

// lead runs the controllers until ctx ends or Stop wants them to.
func (c *controllerManager) lead(ctx context.Context) {
	c.working.Lock()
	defer c.working.Unlock()
	ctx, cancelWork := context.WithCancel(ctx)
	defer cancelWork()
	defer context.AfterFunc(c.quit, cancelWork)()
	if ctx.Err() != nil || c.quit.Err() != nil {
		return
	}
	c.log.Info("this server runs the controllers now")
	cfg, release, err := c.workplace.prepare(ctx)
	var manager *controllers.Manager
	if err == nil {
		defer release()
		manager, err = controllers.Start(ctx, cfg)
	}
	if err != nil {
		if ctx.Err() == nil {
			c.fail(err)
		}
		return
	}
	c.running.Store(manager)
	<-ctx.Done()
	c.running.Store(nil)
	stopping, cancel := context.WithTimeoutCause(context.Background(), stopTimeout, errors.New("the controllers did not end"))
	defer cancel()
	if err := manager.Stop(stopping); err != nil {
		c.fail(err)
	}
}

// fail reports the first error.
func (c *controllerManager) fail(err error) {
	select {
	case c.died <- err:
	default: // one is enough to end the process
	}
}

// names lists the controllers that run in this process.
func (c *controllerManager) names() []string {
	if manager := c.running.Load(); manager != nil {
		return manager.Names()
	}
	return nil
}

// Died implements [Component]: a controller retries what fails; the loss of
// the lease is final.
func (c *controllerManager) Died() <-chan error { return c.died }

// Stop implements [Component].
func (c *controllerManager) Stop(ctx context.Context) error {
	if c.cancel == nil { // there was no election
		return c.running.Load().Stop(ctx)
	}
	go func() {
		c.retire()
		c.waitForWork()
		c.cancel()
	}()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leave the election: %w", context.Cause(ctx))
	}
}
