package planes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// wake starts the control plane, whose state is waking.
func (p *plane) wake(ctx context.Context) {
	server, err := p.start(ctx)
	if err != nil {
		p.serving.Wait() // watches that it had begun to serve
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveUp = nil
	if err != nil {
		if !errors.Is(err, errUnwanted) {
			p.log().Warn("a control plane does not start", "error", err)
			p.failure, p.failedAt = err, time.Now()
		}
		p.handler = nil
		p.set(asleep)
		return
	}
	p.failure, p.server, p.started, p.made, p.revision = nil, server, time.Now(), true, ""
	p.set(awake)
	p.manager.begin(func(context.Context) { p.follow(server) })
}

// start takes room and starts a server.
func (p *plane) start(ctx context.Context) (*controlplane.ControlPlane, error) {
	wanted, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	p.mu.Lock()
	spec, applied := p.spec, p.definitions
	p.outdated, p.giveUp = false, giveUp
	p.reconsider() // the request may have gone
	p.mu.Unlock()
	manifests, hash, err := p.manager.definitions(ctx, spec.CRDs, applied) // may start another one
	if err != nil && (applied == "" || ctx.Err() != nil) {
		return nil, err
	} else if err != nil {
		hash = applied // it has those of its last start
	}
	select {
	case p.manager.starts <- struct{}{}:
	case <-wanted.Done():
		return nil, context.Cause(wanted)
	}
	defer func() { <-p.manager.starts }()
	if err := p.manager.takeRoom(ctx, wanted); err != nil {
		return nil, err
	}
	server, failure := p.launch(ctx, spec, manifests)
	if failure != nil {
		p.manager.giveRoom()
		return nil, failure
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.definitions, p.oldCRDs = hash, err
	return server, nil
}

// launch starts a server in the directory.
func (p *plane) launch(ctx context.Context, spec Spec, manifests fs.FS) (*controlplane.ControlPlane, error) {
	p.mu.Lock()
	made := p.made
	p.mu.Unlock()
	if _, err := os.Stat(p.dir()); errors.Is(err, fs.ErrNotExist) && made {
		return nil, fmt.Errorf("its directory %s is missing: put it back, or delete the ControlPlane", p.dir())
	}
	if free, _, err := p.manager.disk(p.manager.dir()); err == nil && free < roomOfStart {
		return nil, fmt.Errorf("the disk of %s has only %s left: make room, it starts when %s are free", p.manager.dir(),
			datadir.Size(free), datadir.Size(roomOfStart))
	}
	cfg := configuration(p.manager.config.Host, p.name, p.journal(), spec)
	rootCA, err := p.publish(ctx, cfg)
	if err != nil {
		return nil, err
	}
	server, err := controlplane.New(controlplane.Options{
		Config: cfg, Log: p.log(), RootCAFile: rootCA,
		Manifests: manifests, Admission: []controlplane.Admission{p.objectQuota()},
		Middleware: func(next http.Handler) http.Handler {
			p.mu.Lock()
			p.handler = newServed(markClients(next))
			p.mu.Unlock()
			return next
		},
		RequestAuthenticators: []authenticator.Request{p.manager.administrators.of(p.name)},
		OwnMetrics:            true,
		Audit: func(audit.Backend) audit.Backend {
			return planeAudit{audit.Union(), p.manager.audit, p.name}
		},
		WhileServing: p.whileServing,
	})
	if err != nil {
		return nil, err
	}
	if err := server.Start(ctx); err != nil {
		return nil, err
	}
	p.manager.warnOfDisk(cfg)
	return server, nil
}

// follow records the failure of a server that ends by itself.
func (p *plane) follow(server *controlplane.ControlPlane) {
	<-server.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != awake || p.server != server {
		return // it was stopped
	}
	p.server, p.handler, p.revision = nil, nil, ""
	p.set(stopping) // until its watches have ended
	p.mu.Unlock()
	p.serving.Wait()
	p.manager.giveRoom()
	p.mu.Lock()
	p.failure, p.failedAt = fmt.Errorf("it ended: %w", server.Err()), time.Now()
	p.set(asleep)
}

// whileServing continues the parked watches before the first write, and checks at the end that
// nothing was written since the watches were found up to date.
func (p *plane) whileServing(ctx context.Context, ready func()) error {
	p.resume(ctx)
	ready()
	<-ctx.Done()
	p.mu.Lock()
	server, revision := p.server, p.revision
	p.mu.Unlock()
	if server == nil || revision == "" {
		return nil
	}
	current := ""
	client, err := newRevisions(server)
	if err == nil {
		current, err = client.current(context.WithoutCancel(ctx))
	}
	if err != nil || current != revision {
		p.mu.Lock()
		p.revision = "" // the watches end, and their clients ask again
		p.mu.Unlock()
	}
	return nil
}
