package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const (
	// populationRetry is the delay before a broken watch is started again.
	populationRetry = 500 * time.Millisecond
	// progressDelay is the time that Reach waits for events before it requests the
	// progress of the watch from etcd.
	progressDelay = 2 * time.Millisecond
	// progressRepeat is the time between two such requests.
	progressRepeat = 50 * time.Millisecond
	// emptyRefresh is the longest time between two updates of the revision of
	// EmptyResources. A watch cache that begins at a compacted revision fails.
	emptyRefresh = time.Minute
)

// Population counts the objects of each resource: once from etcd's index of
// keys, then from a watch on all keys, which begins with the first use. It is
// safe for concurrent use.
type Population struct {
	storage  *Storage
	log      *slog.Logger
	started  sync.Once
	refresh  time.Duration // see emptyRefresh
	counting chan struct{} // has an entry while a caller counts

	mu         sync.Mutex
	watching   context.Context  // of the current watch; nil before the first
	watcher    clientv3.Watcher // of the current watch
	revision   int64            // the counts are those of this revision
	prefixes   map[string]struct{}
	counts     map[string]int64 // by key prefix below the common one
	counted    map[string]bool  // whether the count includes the objects from before the watch
	beginnings int              // the number of watches
	first      int64            // all changes after this revision are known
	last       map[string]int64 // by prefix: the revision of the last creation or deletion
	began      map[string]beginning
	empty      map[string][]*EmptyResource
	sizes      sizes
	change     chan struct{} // closed when a count becomes 0 or leaves it
	progress   chan struct{} // closed when revision grows
}

func (s *Storage) newPopulation(log *slog.Logger) *Population {
	refresh := emptyRefresh
	if interval := s.config.CompactionInterval; interval > 0 {
		refresh = min(refresh, max(interval/2, time.Second)) // a compaction leaves the revisions of the last interval
	}
	return &Population{
		storage: s, log: log, refresh: refresh, counting: make(chan struct{}, 1),
		change: make(chan struct{}), progress: make(chan struct{}), empty: map[string][]*EmptyResource{},
	}
}

// start begins to follow the store, unless that has begun.
func (p *Population) start() { p.started.Do(func() { p.storage.run(p.run) }) }

// run follows the store until ctx ends. A watch breaks when an external etcd has no leader; then
// the next one counts anew.
func (p *Population) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		p.log.Debug("the watch on all keys of etcd ended, starting it again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(populationRetry):
		}
	}
}

// follow watches all keys until the watch breaks or ctx ends.
func (p *Population) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	revision, err := p.Revision(ctx)
	if err != nil {
		return err
	}
	watcher := p.storage.connection.NewWatcher()
	defer func() { _ = watcher.Close() }() // its error is that of the cancelled context
	root := p.root()
	events := watcher.Watch(ctx, root, clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	p.begin(ctx, watcher, revision)
	ticker := time.NewTicker(p.refresh)
	defer ticker.Stop()
	for {
		select {
		case response, open := <-events:
			if !open {
				return errors.New("the watch was closed")
			}
			if err := response.Err(); err != nil {
				return fmt.Errorf("watch %s: %w", root, err)
			}
			p.apply(response)
		case <-ticker.C:
			if p.hasEmpty() {
				_ = watcher.RequestProgress(ctx) // after an error the events end
			}
		}
	}
}

// begin sets the current watch, drops what is known from earlier ones, and wakes the callers that
// wait for a change.
func (p *Population) begin(ctx context.Context, watcher clientv3.Watcher, revision int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching, p.watcher = ctx, watcher
	p.beginnings++
	p.revision, p.first, p.last, p.began = revision, revision, map[string]int64{}, map[string]beginning{}
	p.counts, p.counted, p.prefixes = map[string]int64{}, map[string]bool{}, p.storage.singlePrefixes()
	p.sizes.reset()
	p.endAllEmpty()
	p.notifyChanged()
	p.notifyAdvanced()
}

// apply adds the objects that the events create and delete to the counts.
func (p *Population) apply(response clientv3.WatchResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	root, changed := len(p.root()), false
	for _, event := range response.Events {
		prefix := store.ResourcePrefix(event.Kv.Key[root:], p.prefixes)
		if p.sizes.follows(string(prefix)) {
			p.sizes.apply(string(prefix), string(event.Kv.Key[root:]), event, p.storage.compactor.CompactRevision())
		}
		if event.Type == clientv3.EventTypePut && !event.IsCreate() {
			continue
		}
		before := p.counts[string(prefix)]
		after := before + 1
		if event.Type == clientv3.EventTypeDelete {
			after = before - 1
		}
		p.counts[string(prefix)] = after
		if before == 0 && after == 1 && p.counted[string(prefix)] {
			p.began[string(prefix)] = beginning{max(p.first, p.last[string(prefix)]), event.Kv.ModRevision - 1, time.Now()}
		}
		p.last[string(prefix)] = event.Kv.ModRevision
		p.endEmpty(prefix, event.Kv.ModRevision)
		changed = changed || before == 0 || after == 0
	}
	// The header of a response with events has the current revision. A watch that lags
	// gets its events in several responses.
	revision := response.Header.Revision
	if len(response.Events) > 0 {
		revision = response.Events[len(response.Events)-1].Kv.ModRevision
	}
	p.revision = max(p.revision, revision)
	p.notifyAdvanced()
	if changed {
		p.notifyChanged()
	}
}

// notifyChanged wakes the callers that wait for a change. The caller holds mu.
func (p *Population) notifyChanged() {
	close(p.change)
	p.change = make(chan struct{})
}

// notifyAdvanced wakes the callers that wait for a revision. The caller holds mu.
func (p *Population) notifyAdvanced() {
	close(p.progress)
	p.progress = make(chan struct{})
}

func (p *Population) root() string { return path.Join("/", p.storage.config.Prefix) + "/" }

// Changed returns a channel that is closed when a resource gets its first
// object or loses its last one. Take it before [Population.Populated].
func (p *Population) Changed() <-chan struct{} {
	p.start()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.change
}

// Populated returns the given resources that have objects, and the key prefixes of
// known objects of other resources, so that a caller learns of resources that are
// new to it. It waits for the watch and counts the resources that were in no earlier
// call.
func (p *Population) Populated(ctx context.Context, resources []schema.GroupResource) (
	populated map[schema.GroupResource]bool, others []string, err error) {
	prefixes := make([]string, len(resources))
	for i, resource := range resources {
		prefixes[i] = p.storage.prefix(resource)
	}
	if err := p.lockCounted(ctx, prefixes); err != nil {
		return nil, nil, err
	}
	defer p.mu.Unlock()
	populated, given := map[schema.GroupResource]bool{}, sets.New(prefixes...)
	for i, resource := range resources {
		if p.counts[prefixes[i]] > 0 {
			populated[resource] = true
		}
	}
	for prefix, count := range p.counts {
		if count > 0 && !given.Has(prefix) {
			others = append(others, prefix)
		}
	}
	return populated, others, nil
}

// Counts returns the numbers of objects of the resources that have any: of the built-in
// resources, and of those that were in a call of [Population.Populated].
func (p *Population) Counts(ctx context.Context) (map[schema.GroupResource]int64, error) {
	known := p.storage.knownPrefixes()
	if err := p.lockCounted(ctx, slices.Collect(maps.Values(known))); err != nil {
		return nil, err
	}
	defer p.mu.Unlock()
	found, used := map[schema.GroupResource]int64{}, sets.New[string]()
	for resource, prefix := range known {
		if n := p.counts[prefix]; n > 0 {
			found[resource] = n
			used.Insert(prefix)
		}
	}
	for prefix, n := range p.counts {
		if group, resource, isCustom := strings.Cut(prefix,
			"/"); n > 0 && isCustom && p.counted[prefix] && !used.Has(prefix) {
			found[schema.GroupResource{Group: group, Resource: resource}] = n
		}
	}
	return found, nil
}

// awaitWatch returns when the first watch has started.
func (p *Population) awaitWatch(ctx context.Context) error {
	p.start()
	for {
		p.mu.Lock()
		begun, change := p.watching != nil, p.change
		p.mu.Unlock()
		if begun {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("wait for the watch on all keys of etcd: %w", context.Cause(ctx))
		}
	}
}

// Revision returns the current revision of the store.
func (p *Population) Revision(ctx context.Context) (int64, error) {
	response, err := p.storage.connection.Client.Get(ctx, p.root()+"health")
	if err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	return response.Header.Revision, nil
}

// Counted returns the revision up to which all changes are counted; 0 before the first
// watch.
func (p *Population) Counted() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision
}

// Reach waits until the counts include all changes up to the revision.
func (p *Population) Reach(ctx context.Context, revision int64) error {
	p.start()
	delay := time.NewTimer(progressDelay)
	defer delay.Stop()
	for {
		p.mu.Lock()
		reached, progress := p.watching != nil && p.revision >= revision, p.progress
		watching, watcher := p.watching, p.watcher
		p.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("wait for revision %d of etcd: %w", revision, context.Cause(ctx))
		case <-delay.C:
			if watcher != nil {
				// The revision may be that of a key outside of the prefix. After
				// an error the watch ends and is started again.
				_ = watcher.RequestProgress(watching)
			}
			delay.Reset(progressRepeat)
		}
	}
}
