package manifests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

const (
	// scanInterval is the time between two scans of the directory.
	scanInterval = time.Second
	// settleTime is the time without changes after which objects are pruned: longer than
	// a file is incomplete, or gone, while it is replaced.
	settleTime = 3 * time.Second
)

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
	// WaitForReady makes Run ready when the manifests that can be applied have been
	// applied once; with Required, when all have been.
	WaitForReady, Required bool
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
		Config: cfg, client: dynamicClient,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient)),
	}, nil
}

// Run applies the manifests until ctx ends. It calls ready at once, or with
// WaitForReady when those that can be applied have been applied: no failure is left,
// or the same ones as in the round before. With Required it calls ready when no
// failure is left. An Applier runs once at a time.
func (a *Applier) Run(ctx context.Context, ready func()) error {
	if !a.WaitForReady {
		ready()
	}
	previous := ""
	a.follow(ctx, func(result applied) {
		err := errors.Join(result.failed...)
		a.mu.Lock()
		a.summary = Summary{Objects: result.objects, Failures: len(result.failed)}
		if err != nil {
			a.summary.Error = err.Error()
		}
		a.mu.Unlock()
		if err == nil || !a.Required && err.Error() == previous {
			ready()
		}
		previous = fmt.Sprint(err)
	})
	return nil
}

// follow applies the manifests now and after each change, and what failed again,
// until ctx ends. It calls report after each round.
func (a *Applier) follow(ctx context.Context, report func(applied)) {
	ticker := time.NewTicker(scanInterval)
	defer ticker.Stop()
	var known map[string]fileState
	backoff, due, settles := retries(), time.Time{}, time.Time{}
	pending, logged := true, &logging.Changes{}
	for {
		files, err := scan(os.DirFS(a.Dir))
		changed := err == nil && !maps.Equal(files, known)
		if changed {
			backoff, known, pending = retries(), files, true
			settles = time.Now().Add(settleTime)
		}
		if err != nil {
			err, pending = fmt.Errorf("%s: %w", a.Dir, err), true // the directory was removed: retry
		}
		if changed || pending && !time.Now().Before(due) {
			result := applied{failed: []error{err}}
			if err == nil {
				result = a.round(ctx, files, !time.Now().Before(settles))
			}
			if ctx.Err() != nil {
				return
			}
			if changed {
				logged.Forget(a.Dir)
			}
			if result.unpruned {
				pending, due = true, settles
			} else {
				pending, due = len(result.failed) > 0, time.Now().Add(backoff.Step())
				a.logRound(result, logged)
			}
			report(result)
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
	if len(result.failed) == 0 {
		a.Log.Info("manifests applied", "dir", a.Dir, "objects", result.objects)
		logged.Forget(a.Dir)
		return
	}
	if text := errors.Join(result.failed...).Error(); logged.Changed(a.Dir, text) {
		a.Log.Error("applying manifests failed, trying again", "dir", a.Dir, "error", text)
	}
}
