package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kube-hyper-mini.io/kube-hyper-mini/internal/controllers"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
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
	api       *apiServers
	selection []string
	log       *slog.Logger

	manager *controllers.Manager // of a single server, or of the leader
	died    chan error
	cancel  context.CancelFunc // of the election
	ended   chan struct{}
	leading sync.WaitGroup
}

// Name implements [Component].
func (c *controllerManager) Name() string { return "controllers" }

// Start implements [Component]. Of several servers, those that do not lead
// are started when they stand by.
func (c *controllerManager) Start(ctx context.Context) error {
	c.died = make(chan error, 1)
	if c.api.store.servers() == 1 {
		manager, err := c.run(ctx)
		c.manager = manager
		return err
	}
	return c.standBy(ctx)
}

func (c *controllerManager) run(ctx context.Context) (*controllers.Manager, error) {
	files := c.api.identity.store
	return controllers.Start(ctx, controllers.Config{
		Client:    c.api.server.Loopback(),
		Informers: c.api.server.Informers(),
		Types:     c.api.server,
		Content:   c.api.storage,
		Files: controllers.Files{
			ServerCA:          files.Cert(pki.ServerCA),
			ClientCA:          files.Cert(pki.ClientCA),
			ClientCAKey:       files.Key(pki.ClientCA),
			ServiceAccountKey: files.Key(pki.ServiceAccount),
		},
		Servers:   c.api.store.servers(),
		Selection: c.selection,
		Log:       c.log,
	})
}

// standBy enters the election and returns.
func (c *controllerManager) standBy(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.api.server.Loopback())
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
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: func(ctx context.Context) { c.leading.Go(func() { c.lead(ctx) }) }, OnStoppedLeading: c.leading.Wait},
	})
	if err != nil {
		return fmt.Errorf("enter the election: %w", err)
	}
	electionCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
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

// lead runs the controllers until ctx ends.
func (c *controllerManager) lead(ctx context.Context) {
	c.log.Info("this server runs the controllers now")
	manager, err := c.run(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.fail(err)
		}
		return
	}
	<-ctx.Done()
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
	if c.manager == nil {
		return nil
	}
	return c.manager.Names()
}

// Died implements [Component]: a controller retries what fails; the loss of
// the lease is final.
func (c *controllerManager) Died() <-chan error { return c.died }

// Stop implements [Component].
func (c *controllerManager) Stop(ctx context.Context) error {
	if c.manager != nil {
		return c.manager.Stop(ctx)
	}
	c.cancel()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leave the election: %w", context.Cause(ctx))
	}
}
