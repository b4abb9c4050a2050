package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// ownerCheck is the time between two checks whether another writer has taken
// the destination over.
const ownerCheck = time.Minute

// ship moves segments from the spool to the destination. It returns why the chain
// ends, or nil when the feed has ended and the spool is empty or stopGrace over.
func (s *session) ship(process, working context.Context, fed <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(process))
	defer cancel(nil)
	defer context.AfterFunc(working, func() {
		if process.Err() == nil {
			cancel(context.Cause(working)) // the chain has ended
			return
		}
		time.AfterFunc(s.w.stopGrace, func() { cancel(context.Canceled) })
	})()
	checked := time.Now()
	backoff := minBackoff
	for ctx.Err() == nil {
		err := s.end.write(ctx, false)
		if err == nil && s.w.spool.empty() {
			select {
			case <-s.newSegment:
			case <-ctx.Done():
			case <-time.After(s.end.due()):
			case <-fed:
				if s.w.spool.empty() {
					_ = s.end.write(ctx, true) // without it, a restored server waits for this one
					return nil
				}
			}
			continue
		}
		if err == nil {
			err = s.shipOldest(ctx)
		}
		if err == nil && time.Since(checked) > ownerCheck {
			checked = time.Now()
			err = s.w.stillOwner(ctx, s.state)
		}
		var ended *endError
		switch {
		case errors.As(err, &ended):
			return err
		case err == nil:
			if s.based() {
				s.w.reportSuccess()
			}
			backoff = minBackoff
			continue
		case process.Err() != nil:
			return nil // the next process ships the rest
		}
		s.w.reportFailure(ctx, err)
		reconcile.Pause(ctx, backoff)
		backoff = min(2*backoff, maxBackoff)
	}
	return nil
}

// shipOldest writes the oldest segment of the spool to the destination.
func (s *session) shipOldest(ctx context.Context) error {
	pending, err := s.w.spool.oldest()
	if err != nil {
		return chainEnd("the spool has lost a segment: %v", err)
	}
	name := chainName(s.state.Number, segmentsDir, pending.header.Name().String())
	err = s.w.create(ctx, name, pending.data)
	if errors.Is(err, ErrExists) { // by an attempt whose response was lost, or by another writer
		if err = s.sameContent(ctx, name, pending.data); errors.Is(err, ErrExists) {
			return chainEnd("another process writes to chain %d: %v", s.state.Number, err)
		}
	}
	if err != nil {
		return err
	}
	if err := s.w.spool.shipped(pending); err != nil {
		return chainEnd("%v", err)
	}
	h := pending.header
	s.w.ledger.recordShipped(h.Last)
	s.end.latest.Sequence, s.end.latest.Last, s.end.latest.Sum = h.Sequence, h.Last, sumOf(pending.data)
	return s.superseded(ctx)
}

// superseded ends the chain if another server has begun the next one: what is written to this
// one is lost to the newest restore.
func (s *session) superseded(ctx context.Context) error {
	if _, err := readClaim(ctx, s.w.config.Store, s.state.Number+1); err != nil {
		return nil // there is none, or the next request fails too
	}
	return s.w.stillOwner(ctx, s.state)
}

// verifyTail ends the chain if another writer has begun one since, or if the destination has a
// segment that the spool lacks: a power failure has taken it, or the data directory is an older
// copy. A second segment with its number, or an end before it, would break the chain.
func (s *session) verifyTail(ctx context.Context) error {
	if err := s.w.stillOwner(ctx, s.state); err != nil {
		return err
	}
	prefix, own := chainName(s.state.Number, segmentsDir)+"/", ""
	if first, err := s.w.spool.oldest(); err == nil {
		own = prefix + first.header.Name().String() // its answer may have been lost
	}
	objects, err := s.w.config.Store.List(ctx, prefix, prefix+segmentsBefore(s.end.latest.Sequence+1))
	for _, object := range objects {
		if object.Name != own {
			return chainEnd("the destination has %s, and the spool has lost it", object.Name)
		}
	}
	return err
}

// sameContent returns ErrExists if an object differs from its own content.
func (s *session) sameContent(ctx context.Context, name string, own []byte) error {
	theirs, err := readAll(ctx, s.w.config.Store, name, maxSegment)
	if err == nil && !bytes.Equal(own, theirs) {
		err = fmt.Errorf("%s has another content: %w", name, ErrExists)
	}
	return err
}

// verifyInterval is the time between two verifications.
const verifyInterval = 24 * time.Hour

// verifyDaily reads what was shipped since the last verification, until ctx ends. It ends
// the chain if the destination does not have what it has confirmed.
func (s *session) verifyDaily(ctx context.Context) {
	s.mu.Lock()
	from := s.since.sequence
	s.mu.Unlock()
	for {
		reconcile.Pause(ctx, min(verifyInterval, s.w.config.Retention/2))
		if ctx.Err() != nil {
			return
		}
		next, err := s.verify(ctx, from)
		if ended := (*endError)(nil); errors.As(err, &ended) {
			s.stop(err)
			return
		}
		if err != nil {
			s.w.reportFailure(ctx, fmt.Errorf("verify the journal: %w", err))
			continue
		}
		from = next
	}
}

// verify reads the segments from the number on that were shipped, unless the retention has
// removed them. It returns the number of the next one.
func (s *session) verify(ctx context.Context, from int) (next int, err error) {
	next = s.w.spool.shippedBefore()
	chain := &Chain{Number: s.state.Number, Claim: &s.state.Claim}
	if err := chain.listBases(ctx, s.w.config.Store); err != nil {
		return from, err
	}
	if len(chain.Bases) > 0 {
		from = max(from, chain.Bases[0].Sequence)
	}
	segments, err := chain.Segments(ctx, s.w.config.Store, from)
	if err != nil {
		return from, err
	}
	reader := &chainReader{plan: &Plan{Store: s.w.config.Store, Chain: chain}, next: max(from, 1), last: math.MaxInt64}
	err = reader.each(ctx, segments, func(*Header, []byte) error { return nil })
	if err == nil && reader.next < next {
		err = fmt.Errorf("%w: segments %d to %d are missing", ErrDamaged, reader.next, next-1)
	}
	if err == nil && len(chain.Bases) == 0 && s.based() {
		err = fmt.Errorf("%w: its bases are missing", ErrDamaged)
	}
	if !errors.Is(err, ErrDamaged) {
		return next, err
	}
	if err := s.w.stillOwner(ctx, s.state); err != nil {
		return from, err // the chain was removed, or the disk is not mounted
	}
	return from, chainEnd("the destination does not have what it has confirmed: %v", err)
}
