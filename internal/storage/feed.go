package storage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage/value"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// maxFeedPages is the number of pages that all feeds read at the same time.
const maxFeedPages = 8

// Feed lists and follows the metadata of the stored objects of a custom resource. The
// events come from the watch on all keys of [Population]: a feed needs no watch of its
// own and no serving machinery. It is used from one goroutine, apart from Revision.
type Feed struct {
	population *Population
	prefix     string // below the common one
	codec      runtime.Codec
	decrypt    value.Transformer // nil if nothing is encrypted
	wake       chan struct{}     // wakes Next

	// The following is guarded by population.mu.
	events  []*clientv3.Event // not taken yet
	added   bool              // the population has the feed
	broken  bool              // events were missed
	waiting bool              // the caller has handled all events
	handled int64             // the caller has handled all events up to this revision
}

// Follow returns a feed of the objects of a custom resource; nil for a built-in one.
// Call Close in the end.
func (s *Storage) Follow(resource schema.GroupResource) (*Feed, error) {
	s.mu.Lock()
	getter, builtIn := s.custom, s.builtIn[resource]
	s.mu.Unlock()
	if getter == nil || builtIn {
		return nil, nil
	}
	options, err := getter.GetRESTOptions(resource, &unstructured.Unstructured{})
	if err != nil {
		return nil, fmt.Errorf("find how %s are stored: %w", resource, err)
	}
	return &Feed{
		population: s.population, prefix: store.CustomResourcePrefix(resource),
		codec: options.StorageConfig.Codec, decrypt: options.StorageConfig.Transformer,
		wake: make(chan struct{}, 1), broken: true,
	}, nil
}

// Close ends the feed.
func (f *Feed) Close() {
	p := f.population
	p.mu.Lock()
	defer p.mu.Unlock()
	p.feeds[f.prefix] = slices.DeleteFunc(p.feeds[f.prefix], func(other *Feed) bool { return other == f })
	if len(p.feeds[f.prefix]) == 0 {
		delete(p.feeds, f.prefix)
	}
}

// add queues an event. The caller holds the population's mu.
func (f *Feed) add(event *clientv3.Event) {
	if !f.broken {
		f.events = append(f.events, event)
		f.wakeUp()
	}
}

func (f *Feed) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default: // it is woken already
	}
}

// breakFeeds makes all feeds list again. The caller holds mu.
func (p *Population) breakFeeds() {
	for _, feeds := range p.feeds {
		for _, f := range feeds {
			f.broken, f.events, f.waiting = true, nil, false
			f.wakeUp()
		}
	}
}

// List returns the metadata of all objects, without labels, annotations and managed
// fields, and their revision. Next returns the changes after that.
func (f *Feed) List(ctx context.Context) ([]*metav1.PartialObjectMetadata, int64, error) {
	p := f.population
	if err := p.awaitWatch(ctx); err != nil {
		return nil, 0, err
	}
	p.mu.Lock()
	if !f.added {
		p.feeds[f.prefix] = append(p.feeds[f.prefix], f)
	}
	f.added, f.broken, f.events, f.waiting = true, false, nil, false
	p.mu.Unlock()
	var objects []*metav1.PartialObjectMetadata
	var revision int64
	kv := &pagedKV{KV: p.storage.connection.Client, page: feedPage}
	for key := f.root(); key != ""; {
		page, next, at, err := f.readPage(ctx, kv, key, revision)
		if err != nil {
			return nil, 0, err
		}
		objects = append(objects, page...)
		key = next
		if revision == 0 {
			revision = at
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f.handled = revision
	return objects, revision, nil
}

// readPage reads objects from the key on, at the revision, or at the current one if that
// is 0; at is that revision. next is the key of the next page; it is empty after the last page.
func (f *Feed) readPage(ctx context.Context, kv clientv3.KV, key string, revision int64) (
	page []*metav1.PartialObjectMetadata, next string, at int64, err error,
) {
	p := f.population
	select {
	case p.pages <- struct{}{}:
		defer func() { <-p.pages }()
	case <-ctx.Done():
		return nil, "", 0, fmt.Errorf("list %s in etcd: %w", f.prefix, context.Cause(ctx))
	}
	response, err := kv.Get(ctx, key, clientv3.WithRange(clientv3.GetPrefixRangeEnd(f.root())), clientv3.WithLimit(maxFeedPage), clientv3.WithRev(revision))
	if err != nil {
		return nil, "", 0, fmt.Errorf("list %s in etcd: %w", f.prefix, err)
	}
	for _, stored := range response.Kvs {
		object, err := f.decode(ctx, stored)
		if err != nil {
			return nil, "", 0, err
		}
		page = append(page, object)
	}
	if response.More {
		next = string(response.Kvs[len(response.Kvs)-1].Key) + "\x00"
	}
	return page, next, response.Header.Revision, nil
}

// Next waits for changes after the last list and returns them in order. The object of a
// deletion has a namespace, a name and the revision of the deletion. The error is
// [ErrUnknownHistory] if changes were missed. After any error, list again.
func (f *Feed) Next(ctx context.Context) ([]watch.Event, error) {
	for {
		events, err := f.take()
		if err != nil {
			return nil, err
		}
		changes := make([]watch.Event, 0, len(events))
		for _, event := range events {
			change, err := f.change(ctx, event)
			if err != nil {
				return nil, err
			}
			changes = append(changes, change)
		}
		if len(changes) > 0 {
			return changes, nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for changes of %s: %w", f.prefix, context.Cause(ctx))
		}
	}
}

// take returns the queued events that the caller has not handled.
func (f *Feed) take() ([]*clientv3.Event, error) {
	f.population.mu.Lock()
	defer f.population.mu.Unlock()
	if f.broken {
		return nil, ErrUnknownHistory
	}
	events := slices.DeleteFunc(f.events, func(event *clientv3.Event) bool { return event.Kv.ModRevision <= f.handled })
	f.events, f.waiting = nil, len(events) == 0
	if len(events) > 0 {
		f.handled = events[0].Kv.ModRevision - 1
	}
	return events, nil
}

// Revision returns a revision of which the caller has handled all changes: it has called
// List or Next again after them.
func (f *Feed) Revision() int64 {
	f.population.mu.Lock()
	defer f.population.mu.Unlock()
	if f.waiting && len(f.events) == 0 {
		return max(f.handled, f.population.revision)
	}
	return f.handled
}

func (f *Feed) root() string { return f.population.root() + f.prefix + "/" }

// change returns what an event has changed.
func (f *Feed) change(ctx context.Context, event *clientv3.Event) (watch.Event, error) {
	if event.Type == clientv3.EventTypeDelete {
		namespace, name, found := strings.Cut(string(event.Kv.Key)[len(f.root()):], "/")
		if !found {
			namespace, name = "", namespace
		}
		return watch.Event{Type: watch.Deleted, Object: &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
				ResourceVersion: formatRevision(event.Kv.ModRevision)},
		}}, nil
	}
	object, err := f.decode(ctx, event.Kv)
	kind := watch.Modified
	if event.IsCreate() {
		kind = watch.Added
	}
	return watch.Event{Type: kind, Object: object}, err
}

// decode reads the metadata of a stored object.
func (f *Feed) decode(ctx context.Context, stored *mvccpb.KeyValue) (*metav1.PartialObjectMetadata, error) {
	text := stored.Value
	var err error
	if f.decrypt != nil {
		if text, _, err = f.decrypt.TransformFromStorage(ctx, text, store.ValueContext(string(stored.Key))); err != nil {
			return nil, fmt.Errorf("decrypt %s of etcd: %w", stored.Key, err)
		}
	}
	if !store.IsJSON(text) {
		if text, err = f.asJSON(text); err != nil {
			return nil, fmt.Errorf("decode %s of etcd: %w", stored.Key, err)
		}
	}
	object, err := store.DecodeMetadata(text, stored.ModRevision)
	if err != nil {
		return nil, fmt.Errorf("decode %s of etcd: %w", stored.Key, err)
	}
	return object, nil
}

// asJSON converts an object that is stored in another encoding, such as CBOR.
func (f *Feed) asJSON(data []byte) ([]byte, error) {
	object := &unstructured.Unstructured{}
	if err := runtime.DecodeInto(f.codec, data, object); err != nil {
		return nil, err
	}
	return object.MarshalJSON()
}

func formatRevision(revision int64) string { return strconv.FormatInt(revision, 10) }
