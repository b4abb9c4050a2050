package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
)

// Span is a part of a chain: a base, and the changes up to the next base.
type Span struct {
	Chain *Chain
	Base  Base
	// Until is the revision of the next base; 0 for the last one of a chain.
	Until int64
	// Ended is a time before which the last change of the span was made: when the
	// next base was made. It is zero for the last base of a chain.
	Ended time.Time
}

// Spans returns the spans of all chains that can be read, in the order of the
// chains. The messages name the chains that cannot.
func Spans(ctx context.Context, store Store) (spans []Span, problems []string, err error) {
	chains, err := Chains(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	if len(chains) == 0 {
		return nil, nil, fmt.Errorf("%s has no journal", store)
	}
	for _, chain := range chains {
		if chain.Claim == nil {
			problems = append(problems, chain.Problem)
			continue
		}
		for i, base := range chain.Bases {
			span := Span{Chain: chain, Base: base}
			if i+1 < len(chain.Bases) {
				span.Until, span.Ended = chain.Bases[i+1].Revision, chain.Bases[i+1].Time
			}
			spans = append(spans, span)
		}
	}
	return spans, problems, nil
}

// Visitor receives what is read, in the order of the revisions. The slices are
// valid during the call only.
type Visitor struct {
	// File receives the files of the base that have keys, and those that have
	// changed later.
	File func(File) error
	// Stored receives the revisions that the base has: the newest one of each key,
	// and those that etcd had not compacted. Their Time is that of the base.
	Stored func(Revision) error
	// Based is called when the base has been read.
	Based func() error
	// Changed receives the revisions after the base.
	Changed func(Revision) error
}

// Reader reads the past from a store. Its methods may be called one after the other.
type Reader struct {
	Store Store
	Key   backup.Key
	// Progress is called for each segment; it may be nil.
	Progress func(done, total int)
}

// Span reads a span. A base or segment that is damaged or missing is a
// BrokenError; what is before it has been passed to the visitor. An error of the
// visitor ends the reading and is returned.
func (r *Reader) Span(ctx context.Context, span Span, visitor Visitor) error {
	plan := &Plan{Store: r.Store, Chain: span.Chain}
	if span.Until != 0 {
		changed := visitor.Changed
		visitor.Changed = func(revision Revision) error {
			if revision.Number > span.Until {
				return errReached
			}
			return changed(revision)
		}
	}
	return r.read(ctx, plan, span.Base, visitor)
}

// Find returns the spans with which a state can be read, the best one first. The
// others are for the case that its base is damaged. They do not end with the
// target. The errors say what can be restored.
func (r *Reader) Find(ctx context.Context, target Target) ([]Span, error) {
	plan, err := NewPlan(ctx, r.Store, target)
	if err != nil {
		return nil, err
	}
	var spans []Span
	for _, base := range plan.Bases {
		spans = append(spans, Span{Chain: plan.Chain, Base: base})
	}
	return spans, nil
}

func (r *Reader) read(ctx context.Context, plan *Plan, base Base, visitor Visitor) error {
	if err := r.readBase(ctx, plan, base, visitor); err != nil {
		if errors.Is(err, backup.ErrDamaged) || isMissing(err) {
			return &BrokenError{Problem: fmt.Errorf("%s: %w", base.Object.Name, err), Base: true}
		}
		return fmt.Errorf("%s: %w", base.Object.Name, err)
	}
	if err := visitor.Based(); err != nil {
		return err
	}
	return plan.read(ctx, base, r.Key, visitor.segments(), r.Progress)
}

// segments is what the visitor receives of segments.
func (v Visitor) segments() visitor {
	return visitor{revision: v.Changed, file: v.File, lease: func(Lease) error { return nil }}
}
