package controllers

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
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
	// always is how often it is asked without a reason, as upstream does:
	// another server's types change without an event here.
	always = 30 * time.Second
)

// discoverer decides which types the controllers see, and when they look
// again. Upstream's controllers each poll discovery every 30 s; here one
// discoverer asks when something has changed and tells the others.
//
// It implements [discovery.ServerResourcesInterface] from its cache, keeping
// what it knew of a group whose server does not answer: a type must not look
// deleted because it cannot be reached.
type discoverer struct {
	discovery.ServerResourcesInterface
	log  *slog.Logger
	wake chan struct{}

	// looking is held from a question to its publication: an old answer must
	// not come after a newer one.
	looking sync.Mutex

	mu        sync.Mutex
	looks     int // how many have begun
	preferred []*metav1.APIResourceList
	failure   error
	changes   int           // how many there were
	seen      int           // how many of them had their time to show
	next      chan struct{} // closed when preferred changes
}

func newDiscoverer(client discovery.ServerResourcesInterface, log *slog.Logger) *discoverer {
	return &discoverer{ServerResourcesInterface: client, log: log, wake: make(chan struct{}, 1), next: make(chan struct{})}
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
			cost = d.look()
			if repeat {
				repeat = false
				timer.Reset(max(again, share*cost))
				continue
			}
			d.settled(looked)
			timer.Reset(always)
		}
	}
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

// fresh looks first if something changed a moment ago. Whoever acts on the
// absence of a type wants this.
func (d *discoverer) fresh() {
	d.mu.Lock()
	stale := d.changes > d.seen || len(d.preferred) == 0
	looks := d.looks
	d.mu.Unlock()
	if stale {
		d.lookAfter(looks)
	}
}

// look asks discovery, publishes what has changed, and returns how long the
// answer took.
func (d *discoverer) look() (cost time.Duration) {
	d.looking.Lock()
	defer d.looking.Unlock()
	began := time.Now()
	d.ask()
	return time.Since(began)
}

// lookAfter is look, unless another one has begun and ended since there were
// so many.
func (d *discoverer) lookAfter(looks int) {
	d.looking.Lock()
	defer d.looking.Unlock()
	d.mu.Lock()
	done := d.looks > looks
	d.mu.Unlock()
	if !done {
		d.ask()
	}
}

// ask publishes what discovery says. Its caller holds looking.
func (d *discoverer) ask() {
	d.mu.Lock()
	d.looks++
	d.mu.Unlock()
	lists, err := discovery.ServerPreferredResources(d.ServerResourcesInterface.(discovery.DiscoveryInterface))
	if len(lists) == 0 {
		d.log.Debug("discovery has nothing to say", "error", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	lists = d.keepUnreachable(lists, err)
	d.failure = err
	if sameTypes(lists, d.preferred) {
		return
	}
	d.preferred = lists
	close(d.next)
	d.next = make(chan struct{})
}

// keepUnreachable adds what was known of the groups that failed.
func (d *discoverer) keepUnreachable(lists []*metav1.APIResourceList, err error) []*metav1.APIResourceList {
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if !partial {
		return lists
	}
	for _, known := range d.preferred {
		if gv, err := schema.ParseGroupVersion(known.GroupVersion); err == nil && failed[gv] != nil {
			lists = append(lists, known)
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

// known lists what was seen at the last look.
func (d *discoverer) known() []*metav1.APIResourceList {
	lists, _, _ := d.snapshot()
	return lists
}

// ServerPreferredResources implements [discovery.ServerResourcesInterface].
func (d *discoverer) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	lists, _, err := d.snapshot()
	return lists, err
}

// ServerPreferredNamespacedResources implements [discovery.ServerResourcesInterface].
func (d *discoverer) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	lists, _, err := d.snapshot()
	return discovery.FilteredBy(discovery.ResourcePredicateFunc(func(_ string, r *metav1.APIResource) bool { return r.Namespaced }), lists), err
}

// knownNamespacedResources is ServerPreferredNamespacedResources for those who
// would only log that some group cannot be reached, and keep what they knew of
// it. That is done here, and who looks after the group's server has said it.
func (d *discoverer) knownNamespacedResources() ([]*metav1.APIResourceList, error) {
	lists, err := d.ServerPreferredNamespacedResources()
	if discovery.IsGroupDiscoveryFailedError(err) {
		err = nil
	}
	return lists, err
}

// follow calls sync, which returns when its context ends, again after each
// change of types. It is how a controller's own 30 s poll is cut short.
func (d *discoverer) follow(ctx context.Context, sync func(context.Context)) {
	for ctx.Err() == nil {
		lists, next, _ := d.snapshot()
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

// sameTypes compares types by name and verbs, in any order.
func sameTypes(a, b []*metav1.APIResourceList) bool {
	return reflect.DeepEqual(verbsByType(a), verbsByType(b))
}

func verbsByType(lists []*metav1.APIResourceList) map[string][]string {
	types := map[string][]string{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			types[list.GroupVersion+"/"+resource.Name] = resource.Verbs
		}
	}
	return types
}
