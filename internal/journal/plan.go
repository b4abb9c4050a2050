package journal

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Target selects the state to restore. The zero Target selects the newest.
type Target struct {
	// At is a moment: all changes that the writer saw until then.
	At time.Time
	// Revision is the last revision. It excludes At.
	Revision int64
}

// newest reports whether neither a time nor a revision is given.
func (t Target) newest() bool { return t.At.IsZero() && t.Revision == 0 }

// Includes reports whether the target includes the revision.
func (t Target) Includes(revision int64, at time.Time) bool {
	return (t.Revision == 0 || revision <= t.Revision) && (t.At.IsZero() || !at.After(t.At))
}

func (t Target) includesBase(b Base) bool { return t.Includes(b.Revision, b.Time) }

// Plan is what a restore reads.
type Plan struct {
	Store  Store
	Target Target
	Chain  *Chain
	// Bases that the restore can begin with, the best one first. Others are for the
	// case that it is damaged.
	Bases []Base
	// Newest is the ID of the store's newest chain.
	Newest string

	endKey string // of the base; see [end]
	// beyond says which changes of the target are left out, because they are in a later chain
	// without a base or before its first one; nil if none are.
	beyond error
}

// NewPlan finds the chain for a target. Its errors name the command that lists what can be restored.
func NewPlan(ctx context.Context, store Store, target Target) (*Plan, error) {
	chains, err := Chains(ctx, store)
	if err != nil {
		return nil, err
	}
	if len(chains) == 0 {
		return nil, fmt.Errorf("%s has no journal", store)
	}
	newest, beyond := "", error(nil)
	for _, chain := range chains {
		if chain.Claim != nil {
			newest = chain.Claim.ID
		}
	}
	for _, chain := range slices.Backward(chains) {
		if chain.Claim == nil {
			if chain.precedes(target) {
				continue
			}
			return nil, chain.unreadable(store)
		}
		plan := &Plan{Store: store, Target: target, Chain: chain, Newest: newest, beyond: beyond}
		for _, base := range slices.Backward(chain.Bases) {
			if target.includesBase(base) {
				plan.Bases = append(plan.Bases, base)
			}
		}
		if len(plan.Bases) == 0 {
			if beyond == nil {
				beyond, err = chain.beforeBase(ctx, store, target)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		covered, err := plan.covers(ctx)
		if err != nil {
			return nil, err
		}
		if covered {
			return plan, nil
		}
	}
	return nil, notRestorable(store, target)
}

// precedes reports whether the target is before the first base of the chain.
func (c *Chain) precedes(target Target) bool {
	return len(c.Bases) > 0 && !target.newest() && !target.includesBase(c.Bases[0])
}

// beforeBase returns what a restore of the target leaves out because the chain has no base (yet),
// or a later one only; nil if it has no changes.
func (c *Chain) beforeBase(ctx context.Context, store Store, target Target) (beyond, err error) {
	if !target.newest() && target.At.Before(c.Claim.Created) { // a revision must be in the chain
		return nil, nil
	}
	began := c.Claim.Created.Local().Format(time.DateTime)
	if len(c.Bases) > 0 {
		return fmt.Errorf("chain %d, which began at %s, has its first base at %s (--revision %d restores it): what it has "+
			"before that is left out", c.Number, began, c.Bases[0].Time.Local().Format(time.DateTime), c.Bases[0].Revision), nil
	}
	segments, err := c.Segments(ctx, store, 0)
	if err != nil || len(segments) == 0 {
		return nil, err
	}
	return fmt.Errorf("chain %d, which began at %s, has no base: its changes until revision %d are left out",
		c.Number, began, segments[len(segments)-1].Last), nil
}

// unreadable is the error of a restore that would leave out the chain.
func (c *Chain) unreadable(store Store) error {
	advice := "remove it, or make it readable"
	if len(c.Bases) > 0 {
		advice = fmt.Sprintf("make it readable, or restore what is before it with --at or --revision: it begins at %s "+
			"with revision %d",
			c.Bases[0].Time.Local().Format(time.DateTime), c.Bases[0].Revision)
	}
	return fmt.Errorf("chain %d of %s cannot be read, and would be left out: %s; %s (see kube-hyper-mini backup list "+
		"--from %[2]s)", c.Number, store, c.Problem, advice)
}

// covers reports whether the chain reaches the revision of the target. Any chain
// reaches a time: nothing was recorded between its end and that time.
func (p *Plan) covers(ctx context.Context) (bool, error) {
	if p.Target.Revision == 0 || p.Bases[0].Revision == p.Target.Revision {
		return true, nil
	}
	segments, err := p.Chain.Segments(ctx, p.Store, p.Bases[0].Sequence)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(segments, func(s Segment) bool { return s.Last >= p.Target.Revision }), nil
}

// notRestorable returns the error for a target that is in no chain.
func notRestorable(store Store, target Target) error {
	wanted := "a state"
	switch {
	case target.Revision != 0:
		wanted = fmt.Sprintf("revision %d", target.Revision)
	case !target.At.IsZero():
		wanted = target.At.Local().Format(time.DateTime)
	}
	return fmt.Errorf("%s cannot be restored from %s; kube-hyper-mini backup list --from %[2]s lists what can be",
		wanted, store)
}

// Window is the part of the history that one chain has, according to its names.
type Window struct {
	Chain  int    `json:"chain"`
	Writer string `json:"writer,omitempty"`
	Host   string `json:"host,omitempty"`
	// HasBase is false for a chain that cannot be restored (yet).
	HasBase bool `json:"hasBase"`
	// From and To are when the first base was made and the last change was seen.
	From          time.Time `json:"from,omitzero"`
	To            time.Time `json:"to,omitzero"`
	FirstRevision int64     `json:"firstRevision,omitempty"`
	LastRevision  int64     `json:"lastRevision,omitempty"`
	Bases         int       `json:"bases"`
	Segments      int       `json:"segments"`
	SizeBytes     int64     `json:"sizeBytes"`
	// Reason is why the chain begins, and why there is a gap before it.
	Reason string `json:"reason,omitempty"`
	// Gap is what cannot be restored between the chain before and this one, in words.
	Gap string `json:"gap,omitempty"`
	// Gaps are missing segments and other problems, in words.
	Gaps []string `json:"gaps,omitempty"`
}

// gapAfter says what cannot be restored between a chain and this later one; empty for nothing.
func (w *Window) gapAfter(before *Window) string {
	const perRestore = 500_000_000 // less than what a restore adds to the revision
	switch {
	case before == nil || !w.HasBase || w.FirstRevision <= before.LastRevision+1:
		return ""
	case w.FirstRevision <= before.LastRevision+perRestore:
		return fmt.Sprintf("not all of the revisions %d to %d can be restored", before.LastRevision+1, w.FirstRevision-1)
	case before.To.After(w.From): // or the clocks differ
		return fmt.Sprintf("chain %d has changes until %s, which chain %d, begun at %s, lacks unless a clock was wrong: "+
			"--revision %d restores them", before.Chain, before.To.Local().Format(time.DateTime), w.Chain,
			w.From.Local().Format(time.DateTime), before.LastRevision)
	}
	return fmt.Sprintf("no change is recorded between %s and %s", before.To.Local().Format(time.DateTime),
		w.From.Local().Format(time.DateTime))
}

// Windows describes all chains of the store from the names of their objects.
func Windows(ctx context.Context, store Store) ([]Window, error) {
	chains, err := Chains(ctx, store)
	if err != nil {
		return nil, err
	}
	var windows []Window
	var before *Window // the last one that can be restored
	for _, chain := range chains {
		segments, err := chain.Segments(ctx, store, 0)
		if err != nil {
			return nil, err
		}
		_, _, last, err := newestEnd(ctx, store, chain.Number)
		if err != nil {
			return nil, err
		}
		window := newWindow(chain, segments, last)
		if window.Gap = window.gapAfter(before); window.HasBase {
			before = &window
		}
		windows = append(windows, window)
	}
	return windows, nil
}

// newWindow describes a chain that was written up to the segment with the number last.
func newWindow(chain *Chain, segments []Segment, last int) Window {
	w := Window{Chain: chain.Number, Bases: len(chain.Bases), Segments: len(segments), HasBase: len(chain.Bases) > 0}
	gap := func(format string, args ...any) { w.Gaps = append(w.Gaps, fmt.Sprintf(format, args...)) }
	if chain.Claim != nil {
		w.Writer, w.Host, w.Reason = chain.Claim.Writer, chain.Claim.Host, chain.Claim.Reason
	} else {
		gap("%s", chain.Problem)
	}
	next := 0
	for _, base := range chain.Bases {
		w.SizeBytes += base.Object.SizeBytes
		w.To, w.LastRevision = base.Time, base.Revision
	}
	if w.HasBase {
		w.From, w.FirstRevision, next = chain.Bases[0].Time, chain.Bases[0].Revision, chain.Bases[0].Sequence
	} else {
		gap("it has no base: nothing of it can be restored")
	}
	for _, segment := range segments {
		w.SizeBytes += segment.Object.SizeBytes
		if segment.Sequence < next {
			continue // its base was removed
		}
		if segment.Sequence > next && next > 0 {
			gap("segments %d to %d are missing: what follows revision %d, until the next base", next, segment.Sequence-1,
				w.LastRevision)
		}
		next = segment.Sequence + 1
		w.LastRevision = max(w.LastRevision, segment.Last)
		if segment.LastTime.After(w.To) {
			w.To = segment.LastTime
		}
	}
	if next = max(next, 1); w.HasBase && next <= last {
		gap("segments %d to %d, the newest ones, are missing", next, last)
	}
	for _, name := range chain.Unknown {
		gap("%s is not of a journal", name)
	}
	return w
}
