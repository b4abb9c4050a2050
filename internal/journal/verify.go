package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

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
	reader := &chainReader{plan: &Plan{Store: s.w.config.Store, Chain: chain}, next: max(from, 1), last: math.MaxInt64, duplicateSequences: duplicateSequences(segments)}
	_, err = reader.each(ctx, segments, func(*Header, []byte) error { return nil })
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
