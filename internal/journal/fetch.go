package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
)

const (
	// fetchers is the number of segments that are read concurrently: S3 delivers small
	// objects faster to many requests.
	fetchers = 64
	// maxAhead bounds the bytes of segments that are read before they are needed.
	maxAhead = 64 << 20
)

// maxSegment bounds the size of a segment that is read, in bytes. Writers close
// segments at maxSegmentSize, which one transaction may exceed.
const maxSegment = 256 << 20

// fetched is a segment or the error of reading it.
type fetched struct {
	segment Segment
	data    []byte
	err     error
	release func() // lets others be read in its place
}

// fetch reads segments in order, some ahead. The reader releases each. It ends when ctx
// does; wait returns when its goroutines have ended.
func fetch(ctx context.Context, store Store, segments []Segment) (queue <-chan chan fetched, wait func()) {
	results := make(chan chan fetched, fetchers)
	var readers sync.WaitGroup
	readers.Go(func() {
		defer close(results)
		ahead := semaphore.NewWeighted(maxAhead)
		for _, segment := range segments {
			size := min(segment.Object.SizeBytes, maxAhead)
			if ahead.Acquire(ctx, size) != nil {
				return // ctx has ended
			}
			result := make(chan fetched, 1)
			select {
			case results <- result:
			case <-ctx.Done():
				return
			}
			readers.Go(func() {
				data, err := readAll(ctx, store, segment.Object.Name, maxSegment)
				result <- fetched{segment, data, err, func() { ahead.Release(size) }}
			})
		}
	})
	return results, readers.Wait
}

// chainReader verifies that segments follow each other in a chain.
type chainReader struct {
	plan     *Plan
	key      backup.Key
	next     int    // the number of the next segment
	last     int64  // the last revision of the segment before, or of the base
	previous string // the sum of the segment before; empty for the first that is read
}

// BrokenError has the place at which a chain is broken, and the last revision that can
// be restored.
type BrokenError struct {
	// What is wrong with which object.
	Problem error
	// Last is the last revision before, and Time when the writer saw it. They are
	// zero if the base is broken.
	Last int64
	Time time.Time
	// Base says that the base is damaged or missing.
	Base bool
}

// Error implements error.
func (e *BrokenError) Error() string { return e.Problem.Error() }

// Unwrap returns the problem.
func (e *BrokenError) Unwrap() error { return e.Problem }

// check verifies that a segment is the next one of the chain, and returns its
// payload.
func (c *chainReader) check(f fetched) (*Header, []byte, error) {
	name := f.segment.Object.Name
	if f.segment.Sequence < c.next {
		return nil, nil, fmt.Errorf("%w: %s has the number of the segment before it", ErrDamaged, name)
	}
	if f.segment.Sequence != c.next {
		return nil, nil, fmt.Errorf("%w: segments %d to %d of chain %d, which follow revision %d, are missing",
			ErrDamaged, c.next, f.segment.Sequence-1, c.plan.Chain.Number, c.last)
	}
	if isMissing(f.err) {
		return nil, nil, fmt.Errorf("%w: %s is missing", ErrDamaged, name)
	}
	if f.err != nil {
		return nil, nil, f.err
	}
	header, payload, err := readHeader(f.data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case header.Chain != c.plan.Chain.Claim.ID:
		err = fmt.Errorf("it is of the chain %s of another server, and this one is %s", header.Chain, c.plan.Chain.Claim.ID)
	case header.Name().String() != f.segment.String():
		err = fmt.Errorf("its content is that of %s", header.Name())
	case header.After > c.last:
		err = fmt.Errorf("it follows revision %d, and what is before it ends at revision %d", header.After, c.last)
	case c.previous != "" && header.Previous != c.previous:
		err = fmt.Errorf("it follows a segment with the SHA-256 sum %s, and the one before it has %s", header.Previous,
			c.previous)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", name, ErrDamaged, err)
	}
	c.next, c.previous = header.Sequence+1, sumOf(f.data)
	return header, payload, nil
}

// each reads segments in their order, checks them, and calls visit with what they hold, until
// visit or a check returns an error.
func (c *chainReader) each(ctx context.Context, segments []Segment,
	visit func(header *Header, payload []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	queue, wait := fetch(ctx, c.plan.Store, segments)
	defer wait()
	defer cancel()
	for result := range queue {
		var f fetched
		select {
		case f = <-result:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		header, payload, err := c.check(f)
		if err == nil {
			err = visit(header, payload)
		}
		f.release()
		if err != nil {
			return err
		}
		c.last = max(c.last, header.Last)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// errReached ends a replay at its target.
var errReached = errors.New("the target is reached")

// read verifies the segments that follow the base and passes what they hold up to
// the target to visit. A chain that is broken is a BrokenError.
func (p *Plan) read(ctx context.Context, base Base, key backup.Key, visit Visitor) error {
	last, endErr := readEnd(ctx, p.Store, p.Chain, p.endKey) // before the segments are listed: more may be written
	segments, err := p.Chain.Segments(ctx, p.Store, base.Sequence)
	if err != nil {
		return err
	}
	c := &chainReader{plan: p, key: key, next: base.Sequence, last: base.Revision}
	at := base.Time
	limited := visit
	limited.Changed = func(r Revision) error {
		if r.Number <= base.Revision {
			return nil
		}
		if !p.Target.Includes(r.Number, r.Time) {
			return errReached
		}
		c.last, at = r.Number, r.Time
		return visit.Changed(r)
	}
	err = c.each(ctx, segments, func(_ *Header, payload []byte) error {
		return readEntries(payload, key, limited)
	})
	if err == nil {
		err = endErr
	}
	if err == nil {
		err = last.missing(c.next)
	}
	switch {
	case errors.Is(err, errReached):
		return nil
	case errors.Is(err, ErrDamaged):
		return &BrokenError{Problem: err, Last: c.last, Time: at}
	case err != nil:
		return err
	}
	if p.Target.Revision > c.last {
		return &BrokenError{Problem: fmt.Errorf("%w: chain %d ends at revision %d", ErrDamaged, p.Chain.Number, c.last),
			Last: c.last, Time: at}
	}
	return nil
}
