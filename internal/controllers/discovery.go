package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// debounce is the least time from a change to the query: CRDs are often created
	// in groups, and a new one is served some milliseconds after it is written.
	debounce = 100 * time.Millisecond
	// costFactor lengthens the time to the next query: it is at least costFactor
	// times the duration of the last one. With a thousand types a query takes 0.1 s,
	// and the controllers compare all types after it.
	costFactor = 20
	// maxDebounce bounds the time that follows from costFactor.
	maxDebounce = 3 * time.Second
	// recheckDelay is the time to a second query, for types that are served later.
	recheckDelay = time.Second
	// pollInterval is the time between two queries without a change, as upstream's,
	// if there are aggregated API servers: their types change without an event.
	pollInterval = 30 * time.Second
)

// discoverer holds the served types. Upstream's controllers each poll discovery every
// 30 s; here one discoverer queries discovery after a change of a CRD or APIService,
// and the controllers read its result. It keeps the types of a group whose server
// does not answer: a type is not deleted because it cannot be reached.
type discoverer struct {
	client discovery.DiscoveryInterface
	remote func(schema.GroupVersion) bool // whether an aggregated API server serves it
	log    *slog.Logger
	wake   chan struct{}

	// queryMu is held during a query, so that an older result does not replace a
	// newer one.
	queryMu sync.Mutex

	queries atomic.Int64 // the number of queries that have begun
	changes atomic.Int64 // the number of changes
	seen    atomic.Int64 // the number of changes that the last query includes; maybe not later ones

	mu        sync.Mutex
	groups    []*restmapper.APIGroupResources
	preferred []*metav1.APIResourceList
	failure   error         // of the groups that did not answer the last successful query
	queryErr  error         // of the last query; nil if it listed types
	next      chan struct{} // closed when groups change
}

func newDiscoverer(client discovery.DiscoveryInterface, remote func(schema.GroupVersion) bool,
	log *slog.Logger) *discoverer {
	return &discoverer{client: client, remote: remote, log: log, wake: make(chan struct{}, 1), next: make(chan struct{})}
}

// changed requests a query. It never blocks.
func (d *discoverer) changed() {
	d.changes.Add(1)
	select {
	case d.wake <- struct{}{}:
	default: // a query is requested already
	}
}

// run queries discovery after changes, and every pollInterval if there are aggregated
// API servers, until ctx ends.
func (d *discoverer) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var cost time.Duration // of the last query
	recheck := false       // whether a second query follows the next one
	before := int64(0)     // the number of changes before the last query
	// A failure is logged once until a query succeeds. The texts differ: they name ports.
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
			if !recheck { // otherwise a query is due already and must not be delayed
				recheck = true
				timer.Reset(min(max(debounce, costFactor*cost), maxDebounce))
			}
		case <-timer.C:
			before = d.changes.Load()
			began := time.Now()
			err := d.queryAfter(d.queries.Load())
			cost = time.Since(began)
			if err != nil {
				if !failed && ctx.Err() == nil {
					d.log.Warn("querying discovery failed, trying again", "error", err)
				}
				failed = true
				timer.Reset(recheckDelay)
				continue
			}
			failed = false
			if recheck {
				recheck = false
				timer.Reset(max(recheckDelay, costFactor*cost))
				continue
			}
			d.seen.Store(before)
			if d.anyRemote() {
				timer.Reset(pollInterval)
			}
		}
	}
}

// anyRemote reports whether an aggregated API server serves a type. It is true before
// the first query.
func (d *discoverer) anyRemote() bool {
	groups, _ := d.all()
	for _, group := range groups {
		for _, version := range group.Group.Versions {
			if d.remote(schema.GroupVersion{Group: group.Group.Name, Version: version.Version}) {
				return true
			}
		}
	}
	return len(groups) == 0
}

// refresh queries discovery if CRDs or APIServices changed since the last query. Call
// it before concluding that a type is absent. After an error the types may be out of
// date.
func (d *discoverer) refresh() error {
	queries := d.queries.Load()
	if d.stale() {
		return d.queryAfter(queries)
	}
	return nil
}

// stale reports whether there are changes that the last query may not include.
func (d *discoverer) stale() bool {
	seen := d.seen.Load() // before changes, which must not be older
	lists, _, _ := d.snapshot()
	return d.changes.Load() > seen || len(lists) == 0
}

// queryAfter queries discovery, unless another query has begun and ended since so
// many had begun. Then it returns the error of that query.
func (d *discoverer) queryAfter(queries int64) error {
	d.queryMu.Lock()
	defer d.queryMu.Unlock()
	if d.queries.Load() > queries {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.queryErr
	}
	return d.queryLocked()
}

// queryLocked queries discovery and publishes the types. On an error the types stay as
// they were. The caller holds queryMu.
func (d *discoverer) queryLocked() error {
	d.queries.Add(1)
	groups, lists, err := discovery.ServerGroupsAndResources(d.client)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queryErr = nil
	if len(lists) == 0 {
		d.queryErr = errors.New("query discovery: it lists no types")
		if err != nil {
			d.queryErr = fmt.Errorf("query discovery: %w", err)
		}
		return d.queryErr
	}
	current := groupTypes(groups, d.keepUnreachable(lists, err))
	d.failure = err
	if reflect.DeepEqual(current, d.groups) {
		return nil
	}
	d.groups, d.preferred = current, kube.PreferredResources(current)
	close(d.next)
	d.next = make(chan struct{})
	return nil
}

// keepUnreachable adds the types of the last query of the groups that failed.
func (d *discoverer) keepUnreachable(lists []*metav1.APIResourceList, err error) []*metav1.APIResourceList {
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if !partial {
		return lists
	}
	for _, group := range d.groups {
		for version, resources := range group.VersionedResources {
			gv := schema.GroupVersion{Group: group.Group.Name, Version: version}
			if failed[gv] != nil {
				lists = append(lists, &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: resources})
			}
		}
	}
	return lists
}

// groupTypes sorts the lists of discovery into their groups, and each list by name: that of a
// group of CRDs has another order after each of their changes. It drops subresources, which no
// controller uses.
func groupTypes(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []*restmapper.APIGroupResources {
	byGroupVersion := make(map[string][]metav1.APIResource, len(lists))
	for _, list := range lists {
		var resources []metav1.APIResource
		for _, resource := range list.APIResources {
			if !strings.Contains(resource.Name, "/") {
				resources = append(resources, resource)
			}
		}
		slices.SortFunc(resources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
		byGroupVersion[list.GroupVersion] = resources
	}
	types := make([]*restmapper.APIGroupResources, 0, len(groups))
	for _, group := range groups {
		resources := make(map[string][]metav1.APIResource, len(group.Versions))
		for _, version := range group.Versions {
			if known, ok := byGroupVersion[version.GroupVersion]; ok {
				resources[version.Version] = known
			}
		}
		types = append(types, &restmapper.APIGroupResources{Group: *group, VersionedResources: resources})
	}
	return types
}

// inPreferredVersion returns the resource in the version that snapshot lists it in, or
// unchanged if it is not served.
func (d *discoverer) inPreferredVersion(resource schema.GroupVersionResource) schema.GroupVersionResource {
	lists, _, _ := d.snapshot()
	for current := range resourcesOf(lists) {
		if current.GroupResource() == resource.GroupResource() {
			return current
		}
	}
	return resource
}

// snapshot returns the types, a channel that is closed at the next change, and the
// error of the groups that did not answer.
func (d *discoverer) snapshot() ([]*metav1.APIResourceList, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.preferred, d.next, d.failure
}

// all returns every served version of every type, and a channel that is closed
// at the next change. Its caller must not change them.
func (d *discoverer) all() ([]*restmapper.APIGroupResources, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.groups, d.next
}

// namespaced lists the namespaced types in their preferred versions.
func (d *discoverer) namespaced() ([]*metav1.APIResourceList, error) {
	lists, _, err := d.snapshot()
	return onlyNamespaced(lists), err
}

func onlyNamespaced(lists []*metav1.APIResourceList) []*metav1.APIResourceList {
	namespaced := func(_ string, r *metav1.APIResource) bool { return r.Namespaced }
	return discovery.FilteredBy(discovery.ResourcePredicateFunc(namespaced), lists)
}

// resourcesOf returns the resources of lists of discovery. It ignores group versions that
// cannot be parsed.
func resourcesOf(lists []*metav1.APIResourceList) map[schema.GroupVersionResource]bool {
	found := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			found[gv.WithResource(resource.Name)] = true
		}
	}
	return found
}
