package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// resync is the base of the informers' resync period. Upstream's is 12 h,
// spread between once and twice that (--min-resync-period).
const resync = 12 * time.Hour

// cacheFillTimeout bounds the wait for the shared caches before the controllers start.
const cacheFillTimeout = 300 * time.Millisecond

// environment has what the controllers share.
type environment struct {
	config   Config
	selected []string
	types    *discoverer   // all served types
	visible  *visibleTypes // the types that garbage collector and quota monitor
	mapper   meta.ResettableRESTMapper

	informers        termInformers // of built-in types, for core.New and the like
	monitorInformers *informerSet  // of the monitors of garbage collector and quota
	graphMonitors    *monitors     // of the garbage collector
	informersStarted chan struct{}

	// graph is the garbage collector's. Storage version migration reads its monitors.
	graph *garbagecollector.GraphBuilder
	// background has the work that several controllers share.
	background []func(context.Context)
	restart    func() // makes run return [errRestart]
	mu         sync.Mutex
	ends       []func()      // called when the controllers have stopped
	naming     []cache.Store // of objects that name types, see [namedTypes]

	filesChanged <-chan struct{} // closed at the next change of Files
	filesContent string          // before it; empty if the files cannot be used
}

func newEnvironment(ctx context.Context, cfg Config, selected []string, restart func()) (*environment, error) {
	cfg.Client = rest.CopyConfig(cfg.Client)
	cfg.Client.QPS = -1 // flow control is the server's job
	env := &environment{config: cfg, selected: selected, restart: restart, informersStarted: make(chan struct{})}
	env.filesChanged = cfg.Files.Changed()
	env.filesContent, _ = cfg.Files.content() // a controller that needs the files returns the error
	informerClient, err := metadata.NewForConfig(env.managerConfig("metadata-informers"))
	if err != nil {
		return nil, fmt.Errorf("make the metadata client of the informers: %w", err)
	}
	discoveryClient, err := newDiscoveryClient(env.managerConfig("controller-discovery"))
	if err != nil {
		return nil, err
	}
	collectorClient, err := env.metadata(garbageCollector)
	if err != nil {
		return nil, err
	}
	env.types = newDiscoverer(discoveryClient, cfg.Types.Remote, cfg.Log)
	env.monitorInformers = newInformerSet(ctx, cfg.Informers, informerClient)
	env.monitorInformers.typedStop = cfg.informersStop
	env.informers = termInformers{cfg.Informers, env.atEnd}
	env.mapper = &typeMapper{types: env.types}
	if err := env.chooseTypes(ctx); err != nil {
		env.end()
		return nil, err
	}
	env.atEnd(cfg.Types.OnChange(env.types.changed))
	env.graph = garbagecollector.NewDependencyGraphBuilder(ctx, collectorClient, env.mapper,
		garbagecollector.DefaultIgnoredResources(), env.graphMonitors, env.informersStarted)
	return env, nil
}

// chooseTypes sets up the types that garbage collector and quota monitor.
func (e *environment) chooseTypes(ctx context.Context) error {
	e.visible = newVisibleTypes(e.types, e.config, e.namedTypes)
	e.monitorInformers.since = e.visible.since
	if e.config.Types.Serves(resourceQuotas) {
		if err := e.watchNames(e.informers.core().V1().ResourceQuotas().Informer()); err != nil {
			return fmt.Errorf("watch resource quotas: %w", err)
		}
	}
	e.graphMonitors = e.newMonitors()
	e.background = []func(context.Context){
		e.types.run, e.visible.run, e.restartAfterRotation,
		func(ctx context.Context) { e.monitorInformers.run(ctx, e.visible.resources) },
	}
	if e.config.Population != nil {
		order := &deletionOrder{ctx: ctx, visible: e.visible, synced: e.graphMonitors.synced}
		e.graphMonitors.wrap = order.handler
	}
	return nil
}

// awaitObject waits until the resource has an object. It returns false if ctx ends before.
func (e *environment) awaitObject(ctx context.Context, resource schema.GroupResource) bool {
	for ctx.Err() == nil {
		changed := e.config.Population.Changed()
		populated, _, err := e.config.Population.Populated(ctx, []schema.GroupResource{resource})
		if populated[resource] {
			return true
		}
		var retry <-chan time.Time
		if err != nil {
			retry = time.After(visibleRetry)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-retry:
		}
	}
	return false
}

// newMonitors returns the informer factory of one controller.
func (e *environment) newMonitors() *monitors {
	m := &monitors{set: e.monitorInformers}
	e.atEnd(m.end)
	return m
}

// atEnd registers f to be called when the controllers have stopped. It removes
// references to them from objects that live longer, such as the informers of the API
// server.
func (e *environment) atEnd(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends = append(e.ends, f)
}

// termInformers are informers that lose the handlers of the controllers when these have stopped.
// They have no methods for groups, which would return the informers below.
type termInformers struct {
	internalinterfaces.SharedInformerFactory
	atEnd func(func())
}

// core are the informers of the core group.
func (f termInformers) core() core.Interface { return core.New(f, metav1.NamespaceAll, nil) }

// InformerFor implements [internalinterfaces.SharedInformerFactory].
func (f termInformers) InformerFor(o runtime.Object,
	make internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return termInformer{f.SharedInformerFactory.InformerFor(o, make), f.atEnd}
}

type termInformer struct {
	cache.SharedIndexInformer
	atEnd func(func())
}

// AddEventHandler implements [cache.SharedInformer].
func (i termInformer) AddEventHandler(
	handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer].
func (i termInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler,
	period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements [cache.SharedInformer].
func (i termInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler,
	options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := i.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
	if err == nil { // RemoveEventHandler fails only if the informer has stopped
		i.atEnd(func() { _ = i.RemoveEventHandler(registration) })
	}
	return registration, err
}

// watchNames makes the types visible that the objects of an informer name.
func (e *environment) watchNames(informer cache.SharedIndexInformer) error {
	e.mu.Lock()
	e.naming = append(e.naming, informer.GetStore())
	e.mu.Unlock()
	_, err := informer.AddEventHandler(wakeWhenNamed(e.visible))
	return err
}

// namedTypes returns the types that ResourceQuotas and StorageVersionMigrations name.
func (e *environment) namedTypes() map[schema.GroupResource]bool {
	e.mu.Lock()
	stores := slices.Clone(e.naming)
	e.mu.Unlock()
	return namedTypes(stores)
}

// end calls the functions of atEnd.
func (e *environment) end() {
	for _, f := range e.ends {
		f()
	}
}

func (e *environment) startInformers(ctx context.Context) {
	e.monitorInformers.start(ctx.Done())
	close(e.informersStarted)
}

// fillCaches waits for the shared caches, at most cacheFillTimeout: a controller that
// finds one empty checks again after 100 ms only (cache.WaitForCacheSync). A type that
// cannot be listed must not delay the other controllers.
func (e *environment) fillCaches(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cacheFillTimeout)
	defer cancel()
	e.config.Informers.WaitForCacheSync(ctx.Done())
}

// waitForInformers waits for the shared caches. A controller waits for its other
// informers itself.
func (e *environment) waitForInformers(ctx context.Context) error {
	for informer, synced := range e.config.Informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the controllers' cache of %s did not fill: %w", informer, context.Cause(ctx))
		}
	}
	return nil
}

func resyncPeriod() time.Duration {
	return time.Duration(float64(resync) * (1 + rand.Float64()))
}

// errRestart ends the controllers, which start again.
var errRestart = errors.New("the controllers start again")

// filesRetry is the time to the next attempt to read files after one has failed.
const filesRetry = time.Minute

// restartAfterRotation starts the controllers again when the content of files has changed
// that some of them read at their start only. While the files cannot be used, the controllers
// continue with what they have.
func (e *environment) restartAfterRotation(ctx context.Context) {
	var retry <-chan time.Time
	for changed := e.filesChanged; ; {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed = e.config.Files.Changed()
		case <-retry:
		}
		retry = nil
		now, err := e.config.Files.content()
		switch {
		case err != nil:
			e.config.Log.Error("reading new certificates and keys failed, trying again in a minute: the controllers "+
				"continue with the old ones", "error", err)
			retry = time.After(filesRetry)
		case now != e.filesContent:
			e.config.Log.Info("certificates or keys were replaced: the controllers start again")
			e.restart()
			return
		}
	}
}

// content returns what the controllers read once. It checks the key.
func (f Files) content() (string, error) {
	rootCA, err := os.ReadFile(f.ServerCA)
	if err != nil {
		return "", fmt.Errorf("read the CA to publish: %w", err)
	}
	key, err := os.ReadFile(f.ServiceAccountKey)
	if err == nil {
		_, err = keyutil.ParsePrivateKeyPEM(key)
	}
	if err != nil {
		return "", fmt.Errorf("read the service account key %s: %w", f.ServiceAccountKey, err)
	}
	return string(rootCA) + string(key), nil
}
