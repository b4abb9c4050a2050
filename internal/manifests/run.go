package manifests

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// scanInterval is the time between two scans of the directory.
const scanInterval = time.Second

// retries returns the delays after failures: from a second to half a minute.
func retries() wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 6, Cap: 30 * time.Second}
}

// Config names the manifests and the client that applies them.
type Config struct {
	// Dir has the manifests.
	Dir string
	// Prune removes objects whose manifests are gone.
	Prune bool
	// WaitForReady makes Run ready when all manifests have been applied once.
	WaitForReady bool
	// Client reaches the API server.
	Client *rest.Config
	Log    *slog.Logger
}

// New returns an Applier. It sends no request.
func New(cfg Config) (*Applier, error) {
	client := rest.AddUserAgent(rest.CopyConfig(cfg.Client), "manifests")
	client.QPS = -1 // flow control of the server bounds requests
	dynamicClient, err := dynamic.NewForConfig(client)
	if err != nil {
		return nil, fmt.Errorf("make the client for manifests: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(client)
	if err != nil {
		return nil, fmt.Errorf("make the client for manifests: %w", err)
	}
	return &Applier{
		dir: cfg.Dir, prunes: cfg.Prune, waits: cfg.WaitForReady, client: dynamicClient, log: cfg.Log,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient)),
	}, nil
}

// Run applies the manifests until ctx ends. It calls ready at once or, with WaitForReady,
// when all have been applied without an error. Do not call it twice at the same time.
func (a *Applier) Run(ctx context.Context, ready func()) error {
	if !a.waits {
		ready()
	}
	a.follow(ctx, func(err error) {
		a.mu.Lock()
		a.failure = err
		a.mu.Unlock()
		if err == nil {
			ready()
		}
	})
	return nil
}

// Failure returns the error of the last round, or nil. It is safe for concurrent use.
func (a *Applier) Failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

// follow applies the manifests, again after each change, and retries failures, until ctx
// ends. After each round it calls report with its error, or nil.
func (a *Applier) follow(ctx context.Context, report func(error)) {
	ticker := time.NewTicker(scanInterval)
	defer ticker.Stop()
	var known map[string]fileState
	backoff, due := retries(), time.Time{}
	pending, logged := true, &logging.Changes{}
	for {
		files, err := scan(a.dir)
		changed := err == nil && !maps.Equal(files, known)
		if changed {
			backoff, known, pending = retries(), files, true
		}
		if err != nil {
			pending = true // the directory was removed: retry
		}
		if changed || pending && !time.Now().Before(due) {
			result := applied{failed: err}
			if err == nil {
				result = a.round(ctx, files)
			}
			if ctx.Err() != nil {
				return
			}
			pending, due = result.failed != nil, time.Now().Add(backoff.Step())
			if changed {
				logged.Forget(a.dir)
			}
			a.logRound(result, logged)
			report(result.failed)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// logRound logs the result of a round. It logs a repeated error once.
func (a *Applier) logRound(result applied, logged *logging.Changes) {
	if result.failed == nil {
		a.log.Info("manifests applied", "dir", a.dir, "objects", result.objects)
		logged.Forget(a.dir)
		return
	}
	if text := result.failed.Error(); logged.Changed(a.dir, text) {
		a.log.Error("applying manifests failed, trying again", "dir", a.dir, "error", text)
	}
}
