package storage

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Size is a number of stored objects and the size of their keys and values, in bytes.
type Size struct{ Objects, Bytes int64 }

// sizes adds up stored objects by resource and namespace: it reads those of a resource once,
// when their size is requested, and follows the watch of the population from then on.
type sizes struct {
	reading singleflight.Group

	// The following is guarded by the population's mu.
	seed    maphash.Seed
	objects map[uint64]uint32 // sizes by the hash of the key; 0 of those deleted during a reading
	totals  map[sizeKey]*Size
	read    map[string]bool // by prefix; false while it is read, and after an error
	old     superseded
}

// sizeKey is the prefix of a resource, or empty for all, and a namespace, or empty for all.
type sizeKey struct{ prefix, namespace string }

// superseded adds up the sizes of old versions of objects, which are stored until they are
// compacted.
type superseded struct {
	compacted     int64            // the revision of the last compaction
	before, since map[string]int64 // by namespace: before and since that one
}

// everything is the prefix of all resources.
const everything = ""

func (z *sizes) reset() {
	z.seed, z.objects, z.totals, z.read = maphash.MakeSeed(), map[uint64]uint32{}, map[sizeKey]*Size{}, map[string]bool{}
	z.old = superseded{since: map[string]int64{}}
}

// follows reports whether the objects of a prefix are added up.
func (z *sizes) follows(prefix string) bool {
	if len(z.read) == 0 {
		return false
	}
	_, own := z.read[prefix]
	_, all := z.read[everything]
	return own || all
}

// set records the size of an object, 0 of a deleted one.
func (z *sizes) set(prefix, key string, size int) (namespace string, before int) {
	hash := maphash.String(z.seed, key)
	before = int(z.objects[hash])
	if first, _, namespaced := strings.Cut(strings.TrimPrefix(key, prefix+"/"), "/"); namespaced {
		namespace = first
		z.add(sizeKey{prefix, namespace}, before, size)
		z.add(sizeKey{everything, namespace}, before, size)
	}
	z.add(sizeKey{prefix, ""}, before, size)
	if size == 0 && !z.isReading(prefix) {
		delete(z.objects, hash)
	} else {
		z.objects[hash] = uint32(size)
	}
	return namespace, before
}

// isReading reports whether a reading may find an object of the prefix that was deleted since.
func (z *sizes) isReading(prefix string) bool {
	own, isOwn := z.read[prefix]
	all, isAll := z.read[everything]
	return isOwn && !own || isAll && !all
}

func (z *sizes) add(key sizeKey, before, after int) {
	total := z.totals[key]
	if total == nil {
		total = &Size{}
		z.totals[key] = total
	}
	total.Bytes += int64(after - before)
	switch {
	case before == 0 && after > 0:
		total.Objects++
	case before > 0 && after == 0:
		total.Objects--
	}
	if total.Objects == 0 {
		delete(z.totals, key)
	}
}

// apply records an event of the watch; compacted is the revision of the last compaction.
func (z *sizes) apply(prefix, key string, event *clientv3.Event, compacted int64) {
	size := 0
	if event.Type == clientv3.EventTypePut {
		size = len(key) + len(event.Kv.Value)
	}
	namespace, before := z.set(prefix, key, size)
	if compacted > z.old.compacted {
		z.old = superseded{compacted: compacted, before: z.old.since, since: map[string]int64{}}
	}
	z.old.since[namespace] += int64(before)
}

// Size returns the size of the stored objects of the resource, in one namespace or, if that
// is empty, in all. It does not include the objects of aggregated API servers.
func (p *Population) Size(ctx context.Context, resource schema.GroupResource, namespace string) (Size, error) {
	return p.size(ctx, p.storage.prefix(resource), namespace)
}

func (p *Population) size(ctx context.Context, prefix, namespace string) (Size, error) {
	if err := p.awaitWatch(ctx); err != nil {
		return Size{}, err
	}
	p.mu.Lock()
	read := p.sizes.read[prefix]
	p.mu.Unlock()
	if !read {
		reading := p.sizes.reading.DoChan(prefix, func() (any, error) { return nil, p.readSizes(prefix) })
		select {
		case result := <-reading:
			if result.Err != nil {
				return Size{}, result.Err
			}
		case <-ctx.Done():
			return Size{}, fmt.Errorf("wait until the sizes of the objects below %q are read: %w", prefix, context.Cause(ctx))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if total := p.sizes.totals[sizeKey{prefix, namespace}]; total != nil {
		return *total, nil
	}
	return Size{}, nil
}

// readSizes adds up the objects below the prefix. Meanwhile the watch reports changes, which
// are newer than what is read, or are reported again by later events.
func (p *Population) readSizes(prefix string) error {
	p.mu.Lock()
	p.sizes.read[prefix] = false
	beginning := p.beginnings
	p.mu.Unlock()
	root := p.root() + prefix
	if prefix != everything {
		root += "/"
	}
	kv, revision := &pagedKV{KV: p.storage.connection.Client, page: clientPage}, int64(0)
	for key := root; ; {
		response, err := kv.Get(p.storage.background, key, clientv3.WithRange(clientv3.GetPrefixRangeEnd(root)),
			clientv3.WithLimit(maxSizesPage), clientv3.WithRev(revision))
		if err != nil {
			return fmt.Errorf("read the sizes of the objects below %q: %w", root, err)
		}
		if revision == 0 {
			revision = response.Header.Revision
		}
		p.mu.Lock()
		if p.beginnings != beginning {
			p.mu.Unlock()
			return fmt.Errorf("read the sizes of the objects below %q: %w", root, ErrUnknownHistory)
		}
		for _, stored := range response.Kvs {
			key := string(stored.Key[len(p.root()):])
			if _, newer := p.sizes.objects[maphash.String(p.sizes.seed, key)]; !newer {
				p.sizes.set(string(store.ResourcePrefix(stored.Key[len(p.root()):], p.prefixes)), key, len(key)+len(stored.Value))
			}
		}
		p.sizes.read[prefix] = !response.More
		p.mu.Unlock()
		if !response.More {
			return nil
		}
		key = string(response.Kvs[len(response.Kvs)-1].Key) + "\x00"
	}
}
