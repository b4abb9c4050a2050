package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// countsPerRequest is less than etcd's default limit of operations in a
	// transaction (--max-txn-ops).
	countsPerRequest = 100
	// parallelCounts bounds the number of concurrent requests of countEach.
	parallelCounts = 16
	// populationRetry is the delay before a broken watch is started again.
	populationRetry = 500 * time.Millisecond
	// progressDelay is the time that Reach waits for events before it requests the
	// progress of the watch from etcd.
	progressDelay = 2 * time.Millisecond
	// progressRepeat is the time between two such requests.
	progressRepeat = 50 * time.Millisecond
	// emptyRefresh is the longest interval at which the revision of EmptyResources is
	// brought up to date. A watch cache that begins at a compacted revision fails.
	emptyRefresh = time.Minute
	// countTimeout bounds the requests of count: apply and HoldEmpty wait for it.
	countTimeout = 10 * time.Second
)

// Population counts the objects of each resource: once from etcd's index of
// keys, then from a watch on all keys, which begins with the first use. It is
// safe for concurrent use.
type Population struct {
	storage *Storage
	log     *slog.Logger
	started sync.Once
	refresh time.Duration // see emptyRefresh

	mu       sync.Mutex
	watching context.Context  // of the current watch; nil before the first
	watcher  clientv3.Watcher // of the current watch
	revision int64            // the counts are those of this revision
	prefixes map[string]struct{}
	counts   map[string]int64 // by key prefix below the common one
	counted  map[string]bool  // whether the count includes the objects from before the watch
	first    int64            // the watch has the changes after this revision
	last     map[string]int64 // by prefix: the revision of the last creation or deletion
	empty    map[string][]*EmptyResource
	change   chan struct{} // closed when a count becomes 0 or leaves it
	progress chan struct{} // closed when revision grows
}

func (s *Storage) newPopulation(log *slog.Logger) *Population {
	refresh := emptyRefresh
	if interval := s.config.CompactionInterval; interval > 0 {
		refresh = min(refresh, max(interval/2, time.Second)) // a compaction leaves the revisions of the last interval
	}
	return &Population{storage: s, log: log, refresh: refresh, change: make(chan struct{}), progress: make(chan struct{})}
}

// start begins to follow the store, unless that has begun.
func (p *Population) start() { p.started.Do(func() { p.storage.run(p.run) }) }

// run follows the store until ctx ends. When the watch breaks, it begins again
// with new counts.
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

// begin drops the counts of an earlier watch and wakes the callers that wait for a
// change.
func (p *Population) begin(ctx context.Context, watcher clientv3.Watcher, revision int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching, p.watcher, p.revision = ctx, watcher, revision
	p.counts, p.counted, p.prefixes = map[string]int64{}, map[string]bool{}, p.storage.builtInPrefixes()
	p.first, p.last = revision, map[string]int64{}
	p.endAllEmpty()
	p.changed()
	p.advanced()
}

// apply adds the objects that the events create and delete to the counts.
func (p *Population) apply(response clientv3.WatchResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	root, changed := len(p.root()), false
	for _, event := range response.Events {
		if event.Type == clientv3.EventTypePut && !event.IsCreate() {
			continue
		}
		prefix := p.prefixOf(event.Kv.Key[root:])
		before := p.counts[string(prefix)]
		after := before + 1
		if event.Type == clientv3.EventTypeDelete {
			after = before - 1
		}
		p.counts[string(prefix)] = after
		p.last[string(prefix)] = event.Kv.ModRevision
		p.occupied(prefix, event.Kv.ModRevision)
		changed = changed || before == 0 || after == 0
	}
	// The header of a response with events has the current revision. A watch that lags
	// gets its events in several responses.
	revision := response.Header.Revision
	if len(response.Events) > 0 {
		revision = response.Events[len(response.Events)-1].Kv.ModRevision
	}
	p.revision = max(p.revision, revision)
	p.advanced()
	if changed {
		p.changed()
	}
}

// prefixOf returns the prefix of a key: the name of a built-in resource, or
// group/resource.
func (p *Population) prefixOf(key []byte) []byte {
	first := bytes.IndexByte(key, '/')
	if first < 0 {
		return key
	}
	if _, builtIn := p.prefixes[string(key[:first])]; builtIn {
		return key[:first]
	}
	second := bytes.IndexByte(key[first+1:], '/')
	if second < 0 {
		return key
	}
	return key[:first+1+second]
}

// changed wakes the callers that wait for a change. The caller holds mu.
func (p *Population) changed() {
	close(p.change)
	p.change = make(chan struct{})
}

// advanced wakes the callers that wait for a revision. The caller holds mu.
func (p *Population) advanced() {
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
func (p *Population) Populated(ctx context.Context, resources []schema.GroupResource) (populated map[schema.GroupResource]bool, others []string, err error) {
	prefixes := make([]string, len(resources))
	for i, resource := range resources {
		prefixes[i] = p.storage.prefix(resource)
	}
	if err := p.countAll(ctx, prefixes); err != nil {
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

// countAll counts the objects below the prefixes that have not been counted,
// when the watch has begun. If it returns no error, it has locked mu.
func (p *Population) countAll(ctx context.Context, prefixes []string) error {
	if err := p.begun(ctx); err != nil {
		return err
	}
	if len(p.uncounted(prefixes)) > 0 {
		// The revision to count at must not have been compacted.
		revision, err := p.Revision(ctx)
		if err != nil {
			return err
		}
		if err := p.Reach(ctx, revision); err != nil {
			return err
		}
	}
	p.mu.Lock()
	for some := range slices.Chunk(p.uncountedLocked(prefixes), countsPerRequest) {
		if err := p.count(ctx, some); err != nil {
			p.mu.Unlock()
			return err
		}
	}
	return nil
}

func (p *Population) uncounted(prefixes []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uncountedLocked(prefixes)
}

func (p *Population) uncountedLocked(prefixes []string) []string {
	var uncounted []string
	for _, prefix := range prefixes {
		if !p.counted[prefix] {
			uncounted = append(uncounted, prefix)
		}
	}
	return uncounted
}

// count counts with requests to etcd, which counts keys in its index without reading
// values, at the revision that the watch has reached. The caller holds mu, so that apply
// waits.
func (p *Population) count(ctx context.Context, prefixes []string) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	count := p.countEach
	if p.storage.connection.Single {
		count = p.countInTransaction
	}
	counts, err := count(ctx, prefixes, p.revision)
	if err != nil {
		return fmt.Errorf("count the objects in etcd: %w", err)
	}
	for i, prefix := range prefixes {
		p.counts[prefix] = counts[i]
		p.counted[prefix] = true
	}
	return nil
}

// countInTransaction counts with one request.
func (p *Population) countInTransaction(ctx context.Context, prefixes []string, revision int64) ([]int64, error) {
	operations := make([]clientv3.Op, len(prefixes))
	for i, prefix := range prefixes {
		operations[i] = clientv3.OpGet(p.root()+prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithRev(revision))
	}
	response, err := p.storage.connection.Client.Txn(ctx).Then(operations...).Commit()
	if err != nil {
		return nil, err
	}
	counts := make([]int64, len(prefixes))
	for i := range prefixes {
		counts[i] = response.Responses[i].GetResponseRange().Count
	}
	return counts, nil
}

// countEach counts with one request for each prefix. kine does not support transactions
// that only read.
func (p *Population) countEach(ctx context.Context, prefixes []string, revision int64) ([]int64, error) {
	counts := make([]int64, len(prefixes))
	requests, ctx := errgroup.WithContext(ctx)
	requests.SetLimit(parallelCounts)
	for i, prefix := range prefixes {
		requests.Go(func() error {
			response, err := p.storage.connection.Client.Get(ctx, p.root()+prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithRev(revision))
			if err != nil {
				return err
			}
			counts[i] = response.Count
			return nil
		})
	}
	return counts, requests.Wait()
}

// begun returns when the first watch has started.
func (p *Population) begun(ctx context.Context) error {
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
