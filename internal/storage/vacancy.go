package storage

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Errors of [Population.Hold].
var (
	// ErrOccupied says that the resource has objects.
	ErrOccupied = errors.New("the resource has objects")
	// ErrUnknownHistory says that objects may have come and gone since the
	// revision.
	ErrUnknownHistory = errors.New("the history of the resource since that revision is not known")
	// ErrFuture says that the store has not reached the revision.
	ErrFuture = errors.New("the store has not reached that revision")
)

// Current is the revision of now for [Population.Hold].
const Current int64 = -1

// handOver is how long the end of a [Vacancy] is remembered for the watch cache
// of its resource.
const handOver = time.Minute

// Vacancy is a resource that has no objects, until its first one is stored. It
// is safe for concurrent use.
type Vacancy struct {
	population *Population
	prefix     string
	ended      chan struct{} // closed when the resource has an object, or nothing is known any more

	// The following is guarded by population.mu.
	holders int
	over    time.Time // when ended was closed
	last    int64     // the last revision without objects; 0 if it is not known
}

// Hold returns that the resource has no objects, and the revision of which that
// holds: the store's at the call, or a later one. No object was created between
// since and that revision; since may be [Current]. Call Release in the end.
// Otherwise the error is one of the above, or of the store; with
// ErrUnknownHistory comes the oldest revision to ask for.
func (p *Population) Hold(ctx context.Context, resource schema.GroupResource, since int64) (*Vacancy, int64, error) {
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
	if err := p.countAll(ctx, []string{prefix}); err != nil {
		return nil, 0, err
	}
	defer p.mu.Unlock()
	if p.counts[prefix] > 0 {
		return nil, 0, ErrOccupied
	}
	if since != Current && (since < p.first || since < p.last[prefix]) {
		return nil, max(p.first, p.last[prefix]), ErrUnknownHistory
	}
	if known := p.vacant[prefix]; len(known) > 0 && known[len(known)-1].over.IsZero() {
		current := known[len(known)-1]
		current.holders++
		return current, p.revision, nil
	}
	v := &Vacancy{population: p, prefix: prefix, ended: make(chan struct{}), holders: 1}
	if p.vacant == nil {
		p.vacant = map[string][]*Vacancy{}
	}
	p.vacant[prefix] = append(p.vacant[prefix], v)
	return v, p.revision, nil
}

// Ended is closed when the resource has got an object, or when the watch on the
// store has been interrupted.
func (v *Vacancy) Ended() <-chan struct{} { return v.ended }

// Revision is the newest known one without objects of the resource, and without
// any since the vacancy began; 0 if the watch on the store was interrupted.
func (v *Vacancy) Revision() int64 {
	v.population.mu.Lock()
	defer v.population.mu.Unlock()
	if v.over.IsZero() {
		return v.population.revision
	}
	return v.last
}

// Release ends the use of the vacancy. It is called once for each Hold.
func (v *Vacancy) Release() {
	p := v.population
	p.mu.Lock()
	defer p.mu.Unlock()
	v.holders--
	if v.holders > 0 {
		return
	}
	p.vacant[v.prefix] = slices.DeleteFunc(p.vacant[v.prefix], func(other *Vacancy) bool { return other == v })
	if len(p.vacant[v.prefix]) == 0 {
		delete(p.vacant, v.prefix)
	}
}

func (p *Population) hasVacancies() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.vacant) > 0
}

// occupied ends the vacancy of a prefix that got an object at the revision. Its
// caller holds mu.
func (p *Population) occupied(prefix []byte, revision int64) {
	for _, v := range p.vacant[string(prefix)] {
		v.end(revision - 1)
	}
}

// endVacancies ends all vacancies, because objects may come and go unseen. Its
// caller holds mu.
func (p *Population) endVacancies() {
	for _, vacancies := range p.vacant {
		for _, v := range vacancies {
			v.end(0)
		}
	}
	clear(p.vacant)
}

// end is called with the population's mu held.
func (v *Vacancy) end(last int64) {
	if v.over.IsZero() {
		v.over, v.last = time.Now(), last
		close(v.ended)
	}
}

// startOfCache returns the revision at which a new watch cache of the resource
// begins, without objects, so that it has the events for those who hold a
// vacancy of the resource; 0 if there are none. seen is the revision of the last
// known creation or deletion of an object, or 0.
func (p *Population) startOfCache(resource schema.GroupResource) (first, seen int64) {
	prefix := p.storage.prefix(resource)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.vacant[prefix] {
		switch {
		case v.over.IsZero():
			return p.revision, p.last[prefix]
		case time.Since(v.over) < handOver:
			return v.last, p.last[prefix]
		}
	}
	return 0, 0
}
