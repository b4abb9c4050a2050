package archive

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"
)

// uncheckedTime is how long before the end of a chain its writer may have stopped to check
// what the destination has of it.
const uncheckedTime = 2 * maxCheckDelay

// chainTail is the end of a chain that another server wrote.
type chainTail struct {
	last    int64     // the last revision that can be restored; 0 without a base
	at      time.Time // when it was archived
	damaged string    // the object after last that is damaged or missing; see [Predecessor]
	problem error     // of that object
}

// readTail finds the end of a chain by the names of its objects, and reads the segments that
// its writer may not have checked.
func readTail(ctx context.Context, store Store, number int, owner *Claim) (chainTail, error) {
	tail := chainTail{}
	bases, err := store.List(ctx, chainName(number, basesDir)+"/", "")
	if err != nil || len(bases) == 0 {
		return tail, err
	}
	for _, object := range bases {
		if name, err := parseBaseName(path.Base(object.Name)); err == nil && name.Revision >= tail.last {
			tail.last, tail.at = name.Revision, name.Time
		}
	}
	chain := &Chain{Number: number, Claim: owner}
	segments, err := chain.Segments(ctx, store, 0)
	if err != nil || len(segments) == 0 {
		return tail, err
	}
	end, from := segments[len(segments)-1].LastTime, 0
	for end.Sub(segments[from].LastTime) > uncheckedTime {
		from++
	}
	whole, err := verify(ctx, store, chain, segments[from:])
	if err != nil {
		return tail, err
	}
	if whole.last > tail.last {
		tail.last, tail.at = whole.last, whole.at
	}
	if tail.last == whole.last { // otherwise a base follows the damage
		tail.damaged, tail.problem = whole.damaged, whole.problem
	}
	return tail, nil
}

// verify reads segments that follow each other, and returns the end of what is whole.
func verify(ctx context.Context, store Store, chain *Chain, segments []Segment) (chainTail, error) {
	tail := chainTail{last: segments[0].First - 1, at: segments[0].FirstTime}
	reader := &chainReader{plan: &Plan{Store: store, Chain: chain}, next: segments[0].Sequence, last: tail.last, duplicateSequences: duplicateSequences(segments)}
	_, err := reader.each(ctx, segments, func(header *Header, _ []byte) error {
		tail.last, tail.at = header.Last, time.UnixMilli(header.LastTime)
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		tail.damaged, tail.problem = reader.segment.Object.Name, err
		if reader.segment.Sequence != reader.next {
			tail.damaged = chainName(chain.Number, segmentsDir, segmentsBefore(reader.next))
		}
		return tail, nil
	}
	return tail, err
}

// completeSuccessor completes the claim of a server that continues after another one of the same
// etcd, which wrote the newest chain of the destination.
func (w *Writer) completeSuccessor(ctx context.Context, claim *Claim, number int, owner *Claim) error {
	tail, err := readTail(ctx, w.config.Store, number, owner)
	if err != nil {
		return err
	}
	claim.Predecessor = &Predecessor{Number: number, Last: tail.last, Damaged: tail.damaged}
	claim.Reason = fmt.Sprintf("another server was elected to write the archive: chain %d was written on %s", number, owner.Host)
	if tail.problem != nil {
		claim.Reason += fmt.Sprintf("; it can be restored up to revision %d: %v", tail.last, tail.problem)
		w.warn("ArchiveChainEnded", "what another server has archived is damaged", tail.problem)
	}
	if tail.last+1 < claim.First {
		claim.Reason += fmt.Sprintf("; revisions %d to %d cannot be restored one by one", tail.last+1, claim.First-1)
	}
	w.ledger.recordPredecessor(tail.last, tail.at.Add(-seenWithin))
	return nil
}
