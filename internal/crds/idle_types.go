package crds

import (
	"context"
	"slices"
	"time"
)

const (
	// idleAfter is the time after its last request until a type is released.
	idleAfter = 5 * time.Minute
	// idleCheck is the interval of the search for idle types.
	idleCheck = 30 * time.Second
	// builtPerByte is how many bytes of memory a type takes for each byte of its CRD.
	builtPerByte = 100
)

// releaseIdle releases idle types, and types whose CRDs have changed, until ctx ends.
func (f *front) releaseIdle(ctx context.Context) {
	ticker := time.NewTicker(idleCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changedTypes:
			f.dropOutdated()
		case now := <-ticker.C:
			f.release(now.Add(-idleAfter))
		}
	}
}

// idle reports whether a type is built and its last request ended before the time. A type
// whose CRD is being deleted is not idle: upstream's finalizer deletes its objects, which
// are no requests. It is called with mu held.
func (f *front) idle(name string, t *servedType, before time.Time) bool {
	if crd := f.catalog.get(name); crd != nil && crd.DeletionTimestamp != nil {
		return false
	}
	return t.users == 0 && t.busy == nil && t.whole != nil && t.lastUsed.Before(before)
}

// release releases the types whose last request ended before the time, one after the
// other, and returns their number.
func (f *front) release(before time.Time) int {
	var names []string
	f.mu.Lock()
	for name, t := range f.types {
		if f.idle(name, t, before) {
			names = append(names, name)
		}
	}
	f.mu.Unlock()
	count := 0
	for _, name := range names {
		if f.releaseOne(name, before) {
			count++
		}
	}
	return count
}

// releaseOne releases a type if it is still idle. Requests of the type wait meanwhile.
func (f *front) releaseOne(name string, before time.Time) bool {
	f.mu.Lock()
	t := f.types[name]
	if t == nil || !f.idle(name, t, before) {
		f.mu.Unlock()
		return false
	}
	t.busy = make(chan struct{})
	f.mu.Unlock()
	f.unload(name, t)
	return true
}

// releaseOver releases the least recently used of the idle types as long as their memory is
// above the bound. It is called when a type has been added.
func (f *front) releaseOver() {
	if f.idleBytes == 0 {
		return
	}
	type candidate struct {
		name     string
		lastUsed time.Time
		size     int64
	}
	var candidates []candidate
	var total int64
	now := time.Now()
	f.mu.Lock()
	for name, t := range f.types {
		if f.idle(name, t, now) {
			candidates = append(candidates, candidate{name, t.lastUsed, t.size})
			total += t.size
		}
	}
	f.mu.Unlock()
	slices.SortFunc(candidates, func(a, b candidate) int { return a.lastUsed.Compare(b.lastUsed) })
	for _, c := range candidates {
		if total <= f.idleBytes {
			return
		}
		f.releaseOne(c.name, now)
		total -= c.size
	}
}
