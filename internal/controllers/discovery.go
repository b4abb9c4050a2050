package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
)

const (
	// quiet is how long after a change discovery is asked, at least: CRDs come
	// in groups, and a new one is served some milliseconds after it is written.
	quiet = 100 * time.Millisecond
	// share is how much of the time may go into asking while changes keep
	// coming: 1 part in so many. With a thousand types one question takes a
	// tenth of a second, and everybody who follows starts over after it.
	share = 20
	// maxQuiet bounds the wait that follows from share.
	maxQuiet = 3 * time.Second
	// again is when it is asked once more, for types that took longer.
	again = time.Second
	// always is how often it is asked without a reason, as upstream does, if
	// there is another server: its types change without an event here.
	always = 30 * time.Second
)

// discoverer knows which types are served. Upstream's controllers each poll
// discovery every 30 s; here one discoverer asks when something has changed and
// tells the others. It keeps what it knew of a group whose server does not
// answer: a type must not look deleted because it cannot be reached.
type discoverer struct {
	client discovery.DiscoveryInterface
	remote func(schema.GroupVersion) bool // whether another server serves it
	log    *slog.Logger
	wake   chan struct{}

	// looking is held from a question to its publication: an old answer must
	// not come after a newer one.
	looking sync.Mutex

	mu        sync.Mutex
	looks     int // how many have begun
	groups    []*restmapper.APIGroupResources
	preferred []*metav1.APIResourceList
	failure   error         // the groups that did not answer at the last look with an answer
	lookErr   error         // why the last look got no answer at all
	changes   int           // how many there were
	seen      int           // how many of them had their time to show
	next      chan struct{} // closed when groups change
}

func newDiscoverer(client discovery.DiscoveryInterface, remote func(schema.GroupVersion) bool, log *slog.Logger) *discoverer {
	return &discoverer{client: client, remote: remote, log: log, wake: make(chan struct{}, 1), next: make(chan struct{})}
}

// changed asks for a new look. It never blocks.
func (d *discoverer) changed() {
	d.mu.Lock()
	d.changes++
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default: // one is asked for already
	}
}

// run looks when asked to, and now and then, until ctx ends.
func (d *discoverer) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var cost time.Duration // of the last question
	repeat := false        // whether the next look follows a change
	looked := 0            // how many changes there were before the last look
	failed := false        // whether the last look got no answer
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
			if !repeat { // else one is due already, and must not be put off
				repeat = true
				timer.Reset(min(max(quiet, share*cost), maxQuiet))
			}
		case <-timer.C:
			looked = d.count()
			var err error
			cost, err = d.look()
			if err != nil {
				if !failed && ctx.Err() == nil {
					d.log.Warn("the served types cannot be read, asking again", "error", err)
				}
				failed = true
				timer.Reset(again)
				continue
			}
			failed = false
			if repeat {
				repeat = false
				timer.Reset(max(again, share*cost))
				continue
			}
			d.settled(looked)
			if d.anyRemote() {
				timer.Reset(always)
			}
		}
	}
}

// anyRemote says whether another server serves some of the types, or nothing is
// known yet.
func (d *discoverer) anyRemote() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, group := range d.groups {
		for _, version := range group.Group.Versions {
			if d.remote(schema.GroupVersion{Group: group.Group.Name, Version: version.Version}) {
				return true
			}
		}
	}
	return len(d.groups) == 0
}

// count is how many changes there were.
func (d *discoverer) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes
}

// settled says that the first changes have had the time to show. Those that came
// since may have come too late for the last look.
func (d *discoverer) settled(changes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = changes
}

// fresh looks if something changed a moment ago. Call it before acting on the
// absence of a type. After an error the known types may be out of date.
func (d *discoverer) fresh() error {
	looks := d.begun()
	if d.stale() {
		return d.lookAfter(looks)
	}
	return nil
}

// begun is how many looks have begun.
func (d *discoverer) begun() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.looks
}

// stale says whether something changed that the last look may have come too
// early for.
func (d *discoverer) stale() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes > d.seen || len(d.preferred) == 0
}

// look asks discovery, publishes what has changed, and returns how long the
// answer took. The error says that there was no answer.
func (d *discoverer) look() (cost time.Duration, err error) {
	d.looking.Lock()
	defer d.looking.Unlock()
	began := time.Now()
	err = d.ask()
	return time.Since(began), err
}

// lookAfter is look, unless another one has begun and ended since there were
// so many; its error is returned then.
func (d *discoverer) lookAfter(looks int) error {
	d.looking.Lock()
	defer d.looking.Unlock()
	d.mu.Lock()
	done, err := d.looks > looks, d.lookErr
	d.mu.Unlock()
	if done {
		return err
	}
	return d.ask()
}

// ask publishes what discovery says. The error says that it lists nothing; what
// was known stays then. Its caller holds looking.
func (d *discoverer) ask() error {
	d.mu.Lock()
	d.looks++
	d.mu.Unlock()
	groups, lists, err := discovery.ServerGroupsAndResources(d.client)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lookErr = nil
	if len(lists) == 0 {
		d.lookErr = errors.New("read the served types: discovery lists none")
		if err != nil {
			d.lookErr = fmt.Errorf("read the served types: %w", err)
		}
		return d.lookErr
	}
	current := groupTypes(groups, d.keepUnreachable(lists, err))
	d.failure = err
	if sameTypes(current, d.groups) {
		return nil
	}
	d.groups, d.preferred = current, preferred(current)
	close(d.next)
	d.next = make(chan struct{})
	return nil
}

// keepUnreachable adds what was known of the groups that failed.
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

// groupTypes sorts the lists of discovery into their groups, without
// subresources: no controller looks at them.
func groupTypes(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []*restmapper.APIGroupResources {
	byGroupVersion := make(map[string][]metav1.APIResource, len(lists))
	for _, list := range lists {
		var resources []metav1.APIResource
		for _, resource := range list.APIResources {
			if !strings.Contains(resource.Name, "/") {
				resources = append(resources, resource)
			}
		}
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

// preferred lists each resource once, in the version that its group prefers,
// or else in the first that has it, as [discovery.ServerPreferredResources] does.
func preferred(groups []*restmapper.APIGroupResources) []*metav1.APIResourceList {
	var lists []*metav1.APIResourceList
	for _, group := range groups {
		seen := map[string]bool{}
		take := func(version string) {
			list := &metav1.APIResourceList{GroupVersion: schema.GroupVersion{Group: group.Group.Name, Version: version}.String()}
			for _, resource := range group.VersionedResources[version] {
				if !seen[resource.Name] {
					seen[resource.Name] = true
					list.APIResources = append(list.APIResources, resource)
				}
			}
			if len(list.APIResources) > 0 {
				lists = append(lists, list)
			}
		}
		take(group.Group.PreferredVersion.Version)
		for _, version := range group.Group.Versions {
			take(version.Version)
		}
	}
	return lists
}

// snapshot returns what is known, a channel that is closed at the next change,
// and what failed.
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
	return discovery.FilteredBy(discovery.ResourcePredicateFunc(func(_ string, r *metav1.APIResource) bool { return r.Namespaced }), lists)
}

// sameTypes compares types by version, name and verbs, in any order.
func sameTypes(a, b []*restmapper.APIGroupResources) bool {
	return reflect.DeepEqual(verbsByType(a), verbsByType(b))
}

func verbsByType(groups []*restmapper.APIGroupResources) map[string][]string {
	types := map[string][]string{}
	for _, group := range groups {
		types[group.Group.Name] = []string{group.Group.PreferredVersion.Version}
		for version, resources := range group.VersionedResources {
			for _, resource := range resources {
				types[group.Group.Name+"/"+version+"/"+resource.Name] = append([]string{resource.Kind, strconv.FormatBool(resource.Namespaced)}, resource.Verbs...)
			}
		}
	}
	return types
}
