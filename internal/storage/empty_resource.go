package storage

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Errors of [Population.HoldEmpty].
var (
	// ErrHasObjects is returned for a resource with objects.
	ErrHasObjects = errors.New("the resource has objects")
	// ErrUnknownHistory is returned if objects may have been created and deleted since
	// the revision.
	ErrUnknownHistory = errors.New("the history of the resource since that revision is not known")
	// ErrFuture is returned if the store has not reached the revision.
	ErrFuture = errors.New("the store has not reached that revision")
)

// Current stands for the current revision in [Population.HoldEmpty].
const Current int64 = -1

// keepEnded is the time for which a watch cache still begins at the last revision without
// objects after the first one was stored: watches from earlier revisions continue in the cache.
const keepEnded = time.Minute

// beginning is the last time a resource got its first object. It had none from revision since to
// revision last.
type beginning struct {
	since, last int64
	at          time.Time
}

// skipEmpty returns the last known revision without objects for a revision since which the resource
// had none, and other revisions as they are: a watch cache may begin after the former.
func (p *Population) skipEmpty(resource schema.GroupResource, revision int64) int64 {
	prefix := p.storage.prefix(resource)
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := max(p.first, p.last[prefix]); p.counted[prefix] && p.counts[prefix] == 0 && since <= revision {
		return max(revision, p.revision)
	}
	if began := p.began[prefix]; began.since <= revision && revision < began.last {
		return began.last
	}
	return revision
}

// EmptyResource is a resource that has no objects, until its first one is stored. It is
// safe for concurrent use.
type EmptyResource struct {
	population *Population
	prefix     string
	ended      chan struct{} // closed when the resource has an object, or the watch on the store was interrupted

	// The following is guarded by population.mu.
	holders int
	endedAt time.Time // when ended was closed; zero before
	last    int64     // the last revision without objects; 0 if it is not known
}

// HoldEmpty returns a resource that has no objects, and a revision at which it has none,
// which is not older than the call. It had none since the revision since either, unless
// that is [Current]. The caller calls Release in the end.
//
// The error is [ErrHasObjects] for a resource with objects, [ErrFuture] if the store has not
// reached since, and [ErrUnknownHistory] if the history from since on is not known; the
// revision is the oldest one with a known history then. Other errors are those of the store.
func (p *Population) HoldEmpty(ctx context.Context, resource schema.GroupResource,
	since int64) (*EmptyResource, int64, error) {
	if since == Current || since > p.Counted() {
		revision, err := p.Revision(ctx)
		if err != nil {
			return nil, 0, err
		}
		if since > revision {
			return nil, 0, ErrFuture
		}
		if err := p.Reach(ctx, revision); err != nil {
			return nil, 0, err
		}
	}
	prefix := p.storage.prefix(resource)
	if err := p.lockCounted(ctx, []string{prefix}); err != nil {
		return nil, 0, err
	}
	defer p.mu.Unlock()
	if p.counts[prefix] > 0 {
		return nil, 0, ErrHasObjects
	}
	if since != Current && (since < p.first || since < p.last[prefix]) {
		return nil, max(p.first, p.last[prefix]), ErrUnknownHistory
	}
	if known := p.empty[prefix]; len(known) > 0 && known[len(known)-1].endedAt.IsZero() {
		current := known[len(known)-1]
		current.holders++
		return current, p.revision, nil
	}
	v := &EmptyResource{population: p, prefix: prefix, ended: make(chan struct{}), holders: 1}
	p.empty[prefix] = append(p.empty[prefix], v)
	return v, p.revision, nil
}

// Ended is closed when the resource has its first object, or when the watch on the
// store was interrupted.
func (v *EmptyResource) Ended() <-chan struct{} { return v.ended }

// Revision is the newest revision at which the resource has no objects; 0 if the watch
// on the store was interrupted.
func (v *EmptyResource) Revision() int64 {
	v.population.mu.Lock()
	defer v.population.mu.Unlock()
	if v.endedAt.IsZero() {
		return v.population.revision
	}
	return v.last
}

// Release ends the use. It is called once for each HoldEmpty.
func (v *EmptyResource) Release() {
	p := v.population
	p.mu.Lock()
	defer p.mu.Unlock()
	v.holders--
	if v.holders > 0 {
		return
	}
	p.empty[v.prefix] = slices.DeleteFunc(p.empty[v.prefix], func(other *EmptyResource) bool { return other == v })
	if len(p.empty[v.prefix]) == 0 {
		delete(p.empty, v.prefix)
	}
}

func (p *Population) hasEmpty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.empty) > 0
}

// endEmpty ends the EmptyResource of a prefix whose first object was stored at the
// revision. The caller holds mu.
func (p *Population) endEmpty(prefix []byte, revision int64) {
	for _, v := range p.empty[string(prefix)] {
		v.end(revision - 1)
	}
}

// endAllEmpty ends all EmptyResources, because creations and deletions may be missed.
// The caller holds mu.
func (p *Population) endAllEmpty() {
	for _, resources := range p.empty {
		for _, v := range resources {
			v.end(0)
		}
	}
	clear(p.empty)
}

// end is called with the population's mu held.
func (v *EmptyResource) end(last int64) {
	if v.endedAt.IsZero() {
		v.endedAt, v.last = time.Now(), last
		close(v.ended)
	}
}

// cacheStart is the [store.CacheStart] of custom resources. Watches that hold the EmptyResource, or
// begin at a revision of the last minute, continue in a new watch cache: that begins empty, at a
// revision which none of them has passed, and so has each event that they need. minimum is the
// revision of the last creation or deletion, which reads of the cache wait for.
func (p *Population) cacheStart(resource schema.GroupResource) (empty, minimum int64) {
	prefix := p.storage.prefix(resource)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.empty[prefix] {
		switch {
		case v.endedAt.IsZero():
			return p.revision, p.last[prefix]
		case time.Since(v.endedAt) < keepEnded:
			return v.last, p.last[prefix]
		}
	}
	if began := p.began[prefix]; time.Since(began.at) < keepEnded {
		return began.last, p.last[prefix]
	}
	return 0, 0
}
