package appliance

import (
	"context"
	"log/slog"
	"sync"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
)

// bootstrapManifests keeps the objects of a directory applied.
type bootstrapManifests struct {
	config config.Manifests
	api    *apiServers
	log    *slog.Logger

	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	failure error         // of the last round
	once    chan struct{} // closed when all have been applied once
}

// Name implements [Component].
func (b *bootstrapManifests) Name() string { return "manifests" }

// Start implements [Component]. With waitForReady it returns when all have
// been applied once, which may take until somebody has mended them; the API
// is served meanwhile.
func (b *bootstrapManifests) Start(ctx context.Context) error {
	applier, err := manifests.New(manifests.Config{
		Dir: b.config.Dir, Prune: b.config.Prune, Client: b.api.server.Loopback(), Log: b.log,
	})
	if err != nil {
		return err
	}
	runCtx, cancel := context.WithCancel(context.Background())
	b.cancel, b.done = cancel, make(chan struct{})
	go func() {
		defer close(b.done)
		applier.Run(runCtx, b.report)
	}()
	if !b.config.WaitForReady {
		return nil
	}
	select {
	case <-b.once:
		return nil
	case <-ctx.Done():
		cancel()
		<-b.done
		return context.Cause(ctx)
	case err := <-b.api.died:
		cancel()
		<-b.done
		return err
	}
}

// report takes what a round came to.
func (b *bootstrapManifests) report(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failure = err
	if err != nil {
		return
	}
	select {
	case <-b.once:
	default:
		close(b.once)
	}
}

// lastFailure is what is wrong with the manifests, or nil.
func (b *bootstrapManifests) lastFailure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// Died implements [Component]: what fails is tried again.
func (b *bootstrapManifests) Died() <-chan error { return nil }

// Stop implements [Component].
func (b *bootstrapManifests) Stop(ctx context.Context) error {
	b.cancel()
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
