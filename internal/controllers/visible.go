package controllers

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	// emptyFor is how long a type stays visible after its last object.
	emptyFor = 30 * time.Second
	// visibleRetry is the pause after a failure to learn what is populated, and
	// before an informer is asked again whether it still holds objects.
	visibleRetry = time.Second
	// warnAfter is how many failures in a row are worth a warning.
	warnAfter = 3
	// updateShare bounds the time that goes into updates: 1 part in so many.
	// After each, garbage collector and quota compare all visible types.
	updateShare = 5
)

// Population counts the objects in the store. [storage.Population] implements it.
type Population interface {
	// Run counts until ctx ends.
	Run(ctx context.Context)
	// Populated returns those of the resources that hold objects, and where the
	// objects are of resources that it was never asked for.
	Populated(ctx context.Context, resources []schema.GroupResource) (populated map[schema.GroupResource]bool, others []string, err error)
	// Changed returns a channel that is closed when a resource gets its first
	// object or loses its last one.
	Changed() <-chan struct{}
	// Revision is the store's current one.
	Revision(ctx context.Context) (int64, error)
	// Counted is the revision up to which all changes are counted.
	Counted() int64
	// Reach waits until all changes up to the revision are counted.
	Reach(ctx context.Context, revision int64) error
}

// visibleTypes are the types that the garbage collector and the quota controller
// monitor: those with objects, those that a quota or a migration names, and
// those of other servers. A type without objects needs no monitor: it has no
// dependents, and the garbage collector looks up an owner that it has not seen.
//
// It implements what upstream calls of [discovery.ServerResourcesInterface].
// It is safe for concurrent use.
type visibleTypes struct {
	discovery.ServerResourcesInterface
	all     *discoverer
	content Population // nil: all types are visible
	remote  func(schema.GroupVersion) bool
	named   *namedTypes
	// holds says whether an informer has objects of the type.
	holds func(schema.GroupVersionResource) bool
	now   func() time.Time
	log   *slog.Logger

	unknown []string // prefixes with objects of no served type; of update alone

	mu      sync.Mutex
	lists   []*metav1.APIResourceList
	next    chan struct{} // closed when lists change
	failure error
	shown   int64           // lists show what had objects at this revision of the store
	changed <-chan struct{} // closed when lists do not show what has objects now
	own     map[schema.GroupVersionResource]*ownType
}

// ownType is a visible type of this server.
type ownType struct {
	since     time.Time // when it became visible
	emptied   time.Time // since when it has no objects; zero if it has, or is named
	deletable bool      // the garbage collector monitors it
}

func newVisibleTypes(all *discoverer, cfg Config, named *namedTypes, holds func(schema.GroupVersionResource) bool) *visibleTypes {
	return &visibleTypes{
		all: all, content: cfg.Population, remote: cfg.Types.Remote, named: named, holds: holds, now: time.Now, log: cfg.Log,
		next: make(chan struct{}),
	}
}

// run updates the types when something has changed, until ctx ends.
func (v *visibleTypes) run(ctx context.Context) {
	failures := 0 // without a success in between
	for ctx.Err() == nil {
		_, allChanged, _ := v.all.snapshot()
		namedChanged := v.named.changed()
		var contentChanged <-chan struct{}
		if v.content != nil {
			contentChanged = v.content.Changed()
		}
		began := time.Now()
		wait, err := v.update(ctx, contentChanged)
		if err == nil {
			failures = 0
		} else if failures++; failures == warnAfter && ctx.Err() == nil {
			v.log.Warn("garbage collector and quota do not see new objects: the types with objects cannot be read, asking again", "error", err)
		}
		pause(ctx, updateShare*time.Since(began))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-allChanged:
		case <-namedChanged:
		case <-contentChanged:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// never is a wait that something else ends.
const never = 24 * time.Hour

// update publishes what is visible now, and returns when to update again if
// nothing changes. Changes of content that close the channel came later.
func (v *visibleTypes) update(ctx context.Context, contentChanged <-chan struct{}) (again time.Duration, err error) {
	lists, _, failure := v.all.snapshot()
	var populated map[schema.GroupResource]bool
	var counted int64
	if v.content != nil {
		counted = v.content.Counted()
		var others []string
		populated, others, err = v.content.Populated(ctx, v.ownResources(lists))
		if err == nil && !isSubset(others, v.unknown) {
			// A type with objects is newer than what discovery said.
			if err = v.all.lookAfter(v.all.begun()); err != nil {
				return visibleRetry, err
			}
			lists, _, failure = v.all.snapshot()
			populated, others, err = v.content.Populated(ctx, v.ownResources(lists))
		}
		if err != nil {
			return visibleRetry, err
		}
		v.unknown = others
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	visible, again := v.choose(lists, populated)
	v.failure, v.shown, v.changed = failure, counted, contentChanged
	if sameLists(v.lists, visible) {
		return again, nil
	}
	v.lists = visible
	close(v.next)
	v.next = make(chan struct{})
	return again, nil
}

func isSubset(of, all []string) bool {
	return !slices.ContainsFunc(of, func(s string) bool { return !slices.Contains(all, s) })
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

// choose returns the visible types, and when to choose again. Its caller holds mu.
func (v *visibleTypes) choose(lists []*metav1.APIResourceList, populated map[schema.GroupResource]bool) (visible []*metav1.APIResourceList, again time.Duration) {
	named, now, own := v.named.current(), v.now(), map[schema.GroupVersionResource]*ownType{}
	again = never
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		if v.content == nil || v.remote(gv) {
			visible = append(visible, list)
			continue
		}
		kept := &metav1.APIResourceList{TypeMeta: list.TypeMeta, GroupVersion: list.GroupVersion}
		for _, resource := range list.APIResources {
			gvr := gv.WithResource(resource.Name)
			known := v.own[gvr]
			if populated[gvr.GroupResource()] || named[gvr.GroupResource()] {
				if known == nil {
					known = &ownType{since: now, deletable: deletable(gvr, resource)}
				}
				known.emptied = time.Time{}
			} else if known == nil {
				continue
			} else if wait := v.lingers(gvr, known, now); wait == 0 {
				continue
			} else {
				again = min(again, wait)
			}
			own[gvr] = known
			kept.APIResources = append(kept.APIResources, resource)
		}
		if len(kept.APIResources) > 0 {
			visible = append(visible, kept)
		}
	}
	v.own = own
	return visible, again
}

// lingers returns how long a type without objects stays visible, at least: until
// its monitors have handled the deletion of the last one.
func (v *visibleTypes) lingers(gvr schema.GroupVersionResource, known *ownType, now time.Time) time.Duration {
	if known.emptied.IsZero() {
		known.emptied = now
	}
	if wait := emptyFor - now.Sub(known.emptied); wait > 0 {
		return wait
	}
	if v.holds(gvr) {
		return visibleRetry
	}
	return 0
}

// deletable says whether the garbage collector monitors a type.
func deletable(gvr schema.GroupVersionResource, resource metav1.APIResource) bool {
	_, ignored := garbagecollector.DefaultIgnoredResources()[gvr.GroupResource()]
	return !ignored && discovery.SupportsAllVerbs{Verbs: []string{"delete", "list", "watch"}}.Match(gvr.GroupVersion().String(), &resource)
}

// shows says whether the lists show every type that had objects at the revision.
func (v *visibleTypes) shows(revision int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changed == nil {
		return v.content == nil
	}
	if v.shown >= revision {
		return true
	}
	select {
	case <-v.changed:
		return false
	default:
		return v.content.Counted() >= revision
	}
}

// stored returns the visible types of this server.
func (v *visibleTypes) stored() map[schema.GroupVersionResource]*ownType {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.own)
}

// unlisted returns whether the garbage collector waits for the first list of a
// type of this server that became visible after the given time.
func (v *visibleTypes) unlisted(after time.Time, synced func(schema.GroupVersionResource) bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for gvr, known := range v.own {
		if known.deletable && known.since.After(after) && !synced(gvr) {
			return true
		}
	}
	return false
}

// snapshot returns what is visible, a channel that is closed at the next change,
// and what failed.
func (v *visibleTypes) snapshot() ([]*metav1.APIResourceList, <-chan struct{}, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lists, v.next, v.failure
}

// ServerPreferredResources implements [discovery.ServerResourcesInterface].
func (v *visibleTypes) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	lists, _, err := v.snapshot()
	return lists, err
}

// namespaced lists the namespaced types. It leaves out that a group cannot be
// reached: quota would log it every time, and the discoverer keeps what was
// known of the group.
func (v *visibleTypes) namespaced() ([]*metav1.APIResourceList, error) {
	lists, _, err := v.snapshot()
	if discovery.IsGroupDiscoveryFailedError(err) {
		err = nil
	}
	return onlyNamespaced(lists), err
}

// follow calls sync, which returns when its context ends, again after each
// change of types. It is how a controller's own 30 s poll is cut short.
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

// sameLists compares types by version, name and verbs, in any order.
func sameLists(a, b []*metav1.APIResourceList) bool {
	return maps.EqualFunc(verbsOf(a), verbsOf(b), slices.Equal)
}

func verbsOf(lists []*metav1.APIResourceList) map[string][]string {
	types := map[string][]string{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			types[list.GroupVersion+"/"+resource.Name] = resource.Verbs
		}
	}
	return types
}
