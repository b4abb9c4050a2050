package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

const (
	// maxSegments, maxBytes and maxChanges may follow a base before a new one is due: a restore
	// replays them in about a minute. A slow S3 delivers 250 objects or 20 MiB in a second, and a
	// slow machine replays 25,000 changes.
	maxSegments = 15_000
	maxBytes    = 1200 << 20
	maxChanges  = 1_500_000
	// maxBaseAge bounds how many changes a restore reads. Without new bases,
	// the retention could not remove old changes.
	maxBaseAge = 24 * time.Hour
	// maxJump bounds what the times of two consecutive bases add to the age of a base.
	maxJump = maxBaseAge
	// basesCheck is the time between two checks whether a base is due.
	basesCheck = 10 * time.Second
)

// sinceBase counts the segments and changes that a replay on the last base
// reads.
type sinceBase struct {
	made     time.Time
	revision int64 // of the base
	sequence int   // of the first segment after it
	segments int
	changes  int
	bytes    int64
}

// makeBases makes the first base of the chain, and new ones when they are due,
// until ctx ends.
func (s *session) makeBases(ctx context.Context) {
	select {
	case <-s.end.first: // without an end, a restore of the base is refused
	case <-ctx.Done():
	}
	backoff := minBackoff
	for ctx.Err() == nil {
		if !s.baseDue() {
			reconcile.Pause(ctx, basesCheck)
			continue
		}
		err := s.makeBase(ctx)
		if ended := (*endError)(nil); errors.As(err, &ended) {
			s.stop(ended)
			return
		}
		if err != nil {
			s.w.reportFailure(ctx, fmt.Errorf("make a base of the journal: %w", err))
			reconcile.Pause(ctx, backoff)
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		backoff = minBackoff
		s.removeOld(ctx)
	}
}

// removeOld removes what the retention does not need. The journal goes on when the
// destination keeps it: the bucket may have object lock.
func (s *session) removeOld(ctx context.Context) {
	err := s.retain(ctx)
	if ctx.Err() != nil {
		return
	}
	kept := ""
	if err != nil {
		kept = fmt.Sprintf("old parts of the journal stay: %v", err)
		s.w.warn("old parts of the journal stay", err)
	}
	s.w.ledger.update(func(a *Account) { a.Warning = kept })
}

func (s *session) baseDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.since
	return since.made.IsZero() || since.segments > maxSegments || since.changes > maxChanges || since.bytes > maxBytes ||
		since.segments > 0 && time.Since(since.made) > min(maxBaseAge, s.w.config.Retention)
}

// makeBase makes a base and writes it to the destination.
func (s *session) makeBase(ctx context.Context) (err error) {
	s.mu.Lock()
	name, before := BaseName{Sequence: s.sequence}, s.since
	least := s.lastRevision()
	s.mu.Unlock()
	dir := filepath.Join(s.w.dir, "base")
	if err := os.RemoveAll(dir); err != nil { // left by a process that was killed
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name.Extension = s.w.config.Encryption.Extension()
	file := filepath.Join(dir, "base"+name.Extension)
	m, err := s.w.config.Base(ctx, s.state.Claim.ID, s.state.Key, file)
	if err != nil {
		return err
	}
	if m.Snapshot.Revision < least && least > 1 { // a new database has revision 1 without a record
		return fmt.Errorf("the snapshot of etcd ends at revision %d, and revision %d was recorded before: its member "+
			"lags behind", m.Snapshot.Revision, least)
	}
	name.Revision = max(m.Snapshot.Revision, least)
	s.mu.Lock()
	name.Time = time.Now()
	if s.last != nil { // the clock may have been set back
		name.Time = time.UnixMilli(max(name.Time.UnixMilli(), s.last.header.LastTime))
	}
	s.mu.Unlock()
	if err := s.shipBase(ctx, file, chainName(s.state.Number, basesDir, name.String())); err != nil {
		return err
	}
	s.mu.Lock()
	s.since = sinceBase{
		made: name.Time, revision: name.Revision, sequence: name.Sequence, segments: s.since.segments - before.segments,
		changes: s.since.changes - before.changes, bytes: s.since.bytes - before.bytes,
	}
	s.mu.Unlock()
	st := s.state
	st.Based, st.Base, st.Revision, st.Sequence = true, name.Time, name.Revision, name.Sequence
	st.Recipients = append([]string{}, s.w.config.Encryption.Recipients...) // not nil
	if err := datadir.WriteJSON(s.w.stateFile(), st); err != nil {
		return err
	}
	s.w.ledger.recordBase(name.Time, name.Revision)
	if before.made.IsZero() {
		s.w.reportSuccess()
	}
	s.w.config.Log.Info("the journal has a new base", "chain", s.state.Number, "revision", name.Revision)
	return nil
}

// shipBase writes the file of a base to the destination.
func (s *session) shipBase(ctx context.Context, path, name string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return s.w.config.Store.Create(ctx, name, file, info.Size())
}

// retain removes what no restore within the retention needs: all before the last base that is
// older than the retention. A chain whose claim cannot be read stays: it may be readable later.
func (s *session) retain(ctx context.Context) error {
	chains, err := Chains(ctx, s.w.config.Store)
	if err != nil {
		return err
	}
	number, first := oldestNeeded(chains, s.w.config.Retention)
	for _, chain := range chains {
		switch {
		case chain.Number > number:
			return nil
		case chain.Number == number:
			return s.shorten(ctx, chain, first)
		case chain.Claim != nil || chain.Unclaimed:
			if err := s.removeChain(ctx, chain); err != nil {
				return err
			}
		}
	}
	return nil
}

// oldestNeeded returns the number of a chain and the index of its base before which nothing
// is within the retention. The age of a base is the time between it and the newest one, by
// the times of all bases between them: a jump of the clock counts for maxJump, or half of the
// retention, and its correction takes that back. Until then it must not shorten the retention.
func oldestNeeded(chains []*Chain, retention time.Duration) (number, index int) {
	limit := min(maxJump, retention/2)
	var age time.Duration
	var after time.Time // of the base that follows
	for _, chain := range slices.Backward(chains) {
		for i, base := range slices.Backward(chain.Bases) {
			if !after.IsZero() {
				age = max(0, age+max(-limit, min(limit, after.Sub(base.Time))))
			}
			if after = base.Time; age > retention+limit {
				return chain.Number, i
			}
		}
	}
	return 0, 0
}

// shorten removes what precedes the base of the index.
func (s *session) shorten(ctx context.Context, chain *Chain, keep int) error {
	for _, base := range chain.Bases[:keep] {
		if err := s.w.config.Store.Remove(ctx, base.Object.Name); err != nil {
			return err
		}
	}
	segments, err := chain.Segments(ctx, s.w.config.Store, 0)
	if err != nil {
		return err
	}
	for _, segment := range segments {
		if segment.Sequence >= chain.Bases[keep].Sequence {
			break
		}
		if err := s.w.config.Store.Remove(ctx, segment.Object.Name); err != nil {
			return err
		}
	}
	return nil
}

// removeChain removes the bases first, because a chain without bases is never
// restored from, and the claim last.
func (s *session) removeChain(ctx context.Context, chain *Chain) error {
	for _, part := range []string{basesDir + "/", segmentsDir + "/", endsDir + "/", chainFile} {
		objects, err := s.w.config.Store.List(ctx, path.Join(chainName(chain.Number), part), "")
		if err != nil {
			return err
		}
		for _, object := range objects {
			if err := s.w.config.Store.Remove(ctx, object.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
