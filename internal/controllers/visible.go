package controllers

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// visibleRetry is the delay after a failed update.
	visibleRetry = time.Second
	// warnAfter is the number of failures in a row after which a warning is logged.
	warnAfter = 3
	// updateCostFactor bounds the time that updates take: after each, run waits
	// updateCostFactor times its duration. Garbage collector and quota compare all
	// visible types after an update.
	updateCostFactor = 5
)

// Population counts the objects in the store. [storage.Population] implements it.
type Population interface {
	// Populated returns the given resources that have objects, and the key prefixes of
	// objects of other resources.
	Populated(ctx context.Context, resources []schema.GroupResource) (
		populated map[schema.GroupResource]bool, others []string, err error)
	// Changed returns a channel that is closed when a resource gets its first
	// object or loses its last one.
	Changed() <-chan struct{}
	// Revision returns the current revision of the store.
	Revision(ctx context.Context) (int64, error)
	// Reach waits until all changes up to the revision are counted.
	Reach(ctx context.Context, revision int64) error
}

// visibleTypes are the types that the garbage collector and the quota controller
// monitor: types that have had objects since the controllers started, types that a quota or
// a migration has named since, and types of aggregated API servers. A type without objects
// needs no monitor: it has no dependents, and the garbage collector reads an owner that is
// not in its graph from the API server.
//
// It is safe for concurrent use.
type visibleTypes struct {
	all     *discoverer
	content Population // nil: all types are visible
	remote  func(schema.GroupVersion) bool
	// named returns the types that quotas and migrations name now; wake is called when they
	// may have changed.
	named func() map[schema.GroupResource]bool
	woken chan struct{}
	log   *slog.Logger

	updating sync.Mutex // held during an update
	unknown  []string   // key prefixes of objects that have no served type; used by updates only

	mu      sync.Mutex
	lists   []*metav1.APIResourceList
	next    chan struct{} // closed when lists change
	failure error
	own     map[schema.GroupVersionResource]ownType
}

// ownType is a visible type of this server.
type ownType struct {
	since     time.Time // when it became visible
	collected bool      // the garbage collector monitors it
}

func newVisibleTypes(all *discoverer, cfg Config, named func() map[schema.GroupResource]bool) *visibleTypes {
	return &visibleTypes{
		all: all, content: cfg.Population, remote: cfg.Types.Remote, named: named, log: cfg.Log,
		woken: make(chan struct{}, 1), next: make(chan struct{}),
	}
}

// wake requests an update. It never blocks.
func (v *visibleTypes) wake() {
	select {
	case v.woken <- struct{}{}:
	default: // an update is requested already
	}
}

// run updates the types after changes, until ctx ends.
func (v *visibleTypes) run(ctx context.Context) {
	failures := 0 // without a success in between
	for ctx.Err() == nil {
		_, allChanged, _ := v.all.snapshot()
		var contentChanged <-chan struct{}
		if v.content != nil {
			contentChanged = v.content.Changed()
		}
		began := time.Now()
		err := v.update(ctx)
		var retry <-chan time.Time
		if err == nil {
			failures = 0
		} else {
			retry = time.After(visibleRetry)
			failures++
		}
		if failures == warnAfter && ctx.Err() == nil {
			v.log.Warn("reading the types with objects failed, trying again: garbage collector and quota do not monitor "+
				"new types", "error", err)
		}
		reconcile.Pause(ctx, updateCostFactor*time.Since(began))
		select {
		case <-ctx.Done():
		case <-allChanged:
		case <-v.woken:
		case <-contentChanged:
		case <-retry:
		}
	}
}

// update publishes the visible types.
func (v *visibleTypes) update(ctx context.Context) (err error) {
	v.updating.Lock()
	defer v.updating.Unlock()
	lists, _, failure := v.all.snapshot()
	var populated map[schema.GroupResource]bool
	if v.content != nil {
		var others []string
		populated, others, err = v.content.Populated(ctx, v.ownResources(lists))
		if err == nil && !sets.New(v.unknown...).HasAll(others...) {
			// A type with objects is newer than the last query of discovery.
			if err = v.all.queryAfter(v.all.queries.Load()); err != nil {
				return err
			}
			lists, _, failure = v.all.snapshot()
			populated, others, err = v.content.Populated(ctx, v.ownResources(lists))
		}
		if err != nil {
			return err
		}
		v.unknown = others
	}
	named := v.named()
	v.mu.Lock()
	defer v.mu.Unlock()
	visible := v.choose(lists, populated, named)
	v.failure = failure
	if reflect.DeepEqual(v.lists, visible) {
		return nil
	}
	v.lists = visible
	close(v.next)
	v.next = make(chan struct{})
	return nil
}

// ownResources are the types that this server stores.
func (v *visibleTypes) ownResources(lists []*metav1.APIResourceList) []schema.GroupResource {
	var own []schema.GroupResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || v.remote(gv) {
			continue
		}
		for _, resource := range list.APIResources {
			own = append(own, gv.WithResource(resource.Name).GroupResource())
		}
	}
	return own
}

// choose returns the visible types. A type stays visible until it is not served any more. The
// caller holds mu.
func (v *visibleTypes) choose(lists []*metav1.APIResourceList,
	populated, named map[schema.GroupResource]bool) (visible []*metav1.APIResourceList) {
	own := map[schema.GroupVersionResource]ownType{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		showAll := v.content == nil || v.remote(gv)
		kept := &metav1.APIResourceList{TypeMeta: list.TypeMeta, GroupVersion: list.GroupVersion}
		for _, resource := range list.APIResources {
			gvr := gv.WithResource(resource.Name)
			known, isKnown := v.own[gvr]
			switch {
			case showAll:
			case isKnown:
				own[gvr] = known
			case populated[gvr.GroupResource()] || named[gvr.GroupResource()]:
				own[gvr] = ownType{since: time.Now(), collected: kube.IsCollected(gvr, resource)}
			default:
				continue
			}
			kept.APIResources = append(kept.APIResources, resource)
		}
		if len(kept.APIResources) > 0 {
			visible = append(visible, kept)
		}
	}
	v.own = own
	return visible
}

// since returns when a type of this server became visible, zero for other types.
func (v *visibleTypes) since(resource schema.GroupVersionResource) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.own[resource].since
}

// anyNewer reports whether holds returns true for a type of this server that the garbage
// collector monitors and that became visible after the given time.
func (v *visibleTypes) anyNewer(after time.Time, holds func(schema.GroupVersionResource, time.Time) bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for gvr, known := range v.own {
		if known.collected && known.since.After(after) && holds(gvr, known.since) {
			return true
		}
	}
	return false
}

// snapshot returns the visible types, a channel that is closed at the next change, and
// the error of the groups that did not answer.
func (v *visibleTypes) snapshot() ([]*metav1.APIResourceList, <-chan struct{}, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lists, v.next, v.failure
}

// resources returns the visible types.
func (v *visibleTypes) resources() map[schema.GroupVersionResource]bool {
	lists, _, _ := v.snapshot()
	return resourcesOf(lists)
}

// monitored is the discovery of the garbage collector.
func (v *visibleTypes) monitored() discovery.ServerResourcesInterface {
	return kube.MonitoredTypes{List: func() ([]*metav1.APIResourceList, error) {
		lists, _, err := v.snapshot()
		return lists, err
	}}
}

// namespaced lists the namespaced types. It does not return the error of groups that did
// not answer: quota would log it each time, and the discoverer keeps their types.
func (v *visibleTypes) namespaced() ([]*metav1.APIResourceList, error) {
	lists, _, err := v.snapshot()
	if discovery.IsGroupDiscoveryFailedError(err) {
		err = nil
	}
	return onlyNamespaced(lists), err
}

// follow calls sync again after each change of the types, until ctx ends. sync returns
// when its context ends. So a controller does not wait for its own poll every 30 s.
func (v *visibleTypes) follow(ctx context.Context, sync func(context.Context)) {
	for ctx.Err() == nil {
		lists, next, _ := v.snapshot()
		if len(lists) == 0 {
			select { // nothing to sync with yet
			case <-ctx.Done():
				return
			case <-next:
				continue
			}
		}
		round, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			sync(round)
		}()
		select {
		case <-ctx.Done():
		case <-next:
		}
		cancel()
		<-done
	}
}
