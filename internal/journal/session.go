package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// maxSegmentSize, in compressed bytes, closes a segment before its interval has
// passed. It bounds the memory.
const maxSegmentSize = 4 << 20

// maxMerge bounds the time in which changes wait in memory while the destination takes the
// segment before them.
const maxMerge = time.Minute

// seenWithin usually bounds the time between the acknowledgement of a change and its watch event.
const seenWithin = time.Second

// session writes one chain until the process ends or the continuity of the chain does.
type session struct {
	w     *Writer
	state state
	// newSegment has a token when a segment is in the spool.
	newSegment chan struct{}
	// stop ends run with an error.
	stop context.CancelCauseFunc

	// Of the goroutine of feed.
	builder *builder
	files   *identityFiles

	end chainEndWriter // of the goroutine of ship

	// last and sequence are written by feed only, which reads them without the lock.
	mu       sync.Mutex
	last     *tail // of the segments made so far; nil before the first
	sequence int   // of the segment that is being built
	since    sinceBase
}

func newSession(w *Writer, st state, last *tail) (*session, error) {
	b, err := newBuilder()
	if err != nil {
		return nil, err
	}
	files, err := newIdentityFiles(w.config.DataDir, w.config.KeyFiles)
	if err != nil {
		return nil, err
	}
	s := &session{w: w, state: st, builder: b, files: files, last: last, newSegment: make(chan struct{}, 1), sequence: 1}
	s.end = chainEndWriter{session: s, first: make(chan struct{})}
	if last != nil {
		s.sequence = last.header.Sequence + 1
		files.written = nil // changes while no process ran go into the next segment
	}
	if st.Based {
		s.since = sinceBase{made: st.Base, revision: st.Revision, sequence: st.Sequence, segments: s.sequence - st.Sequence}
		if st.Revision != 0 && last != nil { // each revision has a change at least
			s.since.changes = int(max(0, last.header.Last-st.Revision))
		}
	}
	var safe time.Time
	if s.end.latest, safe, err = s.shipped(); err != nil {
		return nil, err
	}
	w.ledger.recordChain(st.Number, st.Based, s.end.latest.Last, safe)
	return s, nil
}

// based reports whether the chain has a base. Without one, nothing of it can be restored.
func (s *session) based() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.made.IsZero()
}

// lastRevision is the last revision that the segments have.
func (s *session) lastRevision() int64 {
	if s.last != nil {
		return s.last.header.Last
	}
	return s.state.Claim.First - 1
}

// shipped is the end of what earlier processes have shipped, and a time before which
// everything was recorded; zero if it is not known.
func (s *session) shipped() (e end, safe time.Time, err error) {
	if !s.w.spool.empty() {
		first, err := s.w.spool.oldest()
		if err != nil {
			return e, safe, err
		}
		h := first.header
		e = end{Sequence: h.Sequence - 1, Last: h.After, Sum: h.Previous}
		return e, time.UnixMilli(h.FirstTime).Add(-seenWithin), nil
	}
	if s.last == nil {
		return end{Last: s.lastRevision()}, safe, nil
	}
	h := s.last.header
	return end{Sequence: h.Sequence, Last: h.Last, Sum: s.last.sum}, time.UnixMilli(h.LastTime).Add(-seenWithin), nil
}

// run writes the chain until ctx ends, or returns why the chain ends.
func (s *session) run(ctx context.Context) error {
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.stop = cancel
	fed := make(chan struct{})
	var workers sync.WaitGroup
	workers.Go(func() {
		if err := s.ship(ctx, working, fed); err != nil {
			cancel(err)
		}
	})
	workers.Go(func() { s.makeBases(working) })
	workers.Go(func() { s.verifyDaily(working) })
	err := s.feed(working)
	if ctx.Err() == nil {
		cancel(err)
	}
	close(fed)
	workers.Wait()
	if cause := context.Cause(working); cause != nil && ctx.Err() == nil {
		return cause
	}
	return err
}

// feed turns changes into segments. It returns when ctx ends, after it has put the
// last segment into the spool, or why the chain ends.
func (s *session) feed(ctx context.Context) error {
	for {
		err := s.follow(ctx)
		var ended *endError
		switch {
		case ctx.Err() != nil:
			return s.closeSegment()
		case errors.As(err, &ended):
			return err
		}
		s.w.reportFailure(ctx, err)
		reconcile.Pause(ctx, minBackoff)
	}
}

// follow reads the changes after the last segment until something fails.
func (s *session) follow(ctx context.Context) error {
	from, known := s.lastRevision()+1, ""
	if s.last != nil {
		from, known = s.last.header.Last, s.last.header.LastDigest
	}
	s.builder.reset()
	s.files.rollback()
	current, err := s.w.readRevision(ctx)
	if err != nil {
		return err
	}
	if current < s.lastRevision() {
		return chainEnd("etcd is at revision %d, and revision %d was recorded: its data was replaced", current,
			s.lastRevision())
	}
	watcher := s.w.etcd.NewWatcher()
	defer func() { _ = watcher.Close() }()                             // its context has ended, or it has failed
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx)) // drain reads on
	defer cancel()
	changes := watcher.Watch(watching, "\x00", clientv3.WithFromKey(), clientv3.WithRev(from))
	timer := time.NewTimer(s.w.config.Interval)
	defer timer.Stop()
	timer.Stop()
	var began time.Time // when the first change of the segment was seen
	for {
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), s.drain(ctx, changes, known))
		case <-timer.C:
			if !s.w.spool.empty() && time.Since(began) < maxMerge { // a segment for each request would pile up
				timer.Reset(s.w.config.Interval)
				continue
			}
			if err := s.closeSegment(); err != nil {
				return err
			}
		case response, open := <-changes:
			if !open {
				return errors.New("the watch on etcd has ended")
			}
			waiting := !s.builder.empty()
			if known, err = s.take(response, known); err != nil {
				return err
			}
			if !waiting && !s.builder.empty() {
				timer.Reset(s.w.config.Interval)
				began = time.Now()
			}
		}
	}
}

// drain reads the changes until the revision that etcd has when the process stops,
// for stopDrain at most.
func (s *session) drain(ctx context.Context, changes clientv3.WatchChan, known string) error {
	if ended := (*endError)(nil); errors.As(context.Cause(ctx), &ended) {
		return nil // the chain ends, and not the process
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.w.stopDrain)
	defer cancel()
	current, err := s.w.readRevision(draining)
	for err == nil && max(s.lastRevision(), s.builder.header.Last) < current {
		select {
		case response, open := <-changes:
			if !open {
				return errors.New("the watch on etcd has ended")
			}
			known, err = s.take(response, known)
		case <-draining.Done():
			return context.Cause(draining)
		}
	}
	return err
}

// take adds the events of a response to the segment. known is the digest of the
// revision that the last segment ends with, which must come first; the result is
// empty when it has come.
func (s *session) take(response clientv3.WatchResponse, known string) (string, error) {
	if err := response.Err(); err != nil {
		if errors.Is(err, rpctypes.ErrCompacted) || response.CompactRevision != 0 {
			return known, chainEnd("the changes after revision %d were compacted before they were recorded", s.lastRevision())
		}
		return known, fmt.Errorf("watch etcd: %w", err)
	}
	if slices.ContainsFunc(response.Events, isEncrypted) {
		if err := s.addChangedFiles(); err != nil { // before the values that need them
			return known, err
		}
	}
	now := time.Now()
	for rest := response.Events; len(rest) > 0; {
		number := rest[0].Kv.ModRevision
		n := 1
		for n < len(rest) && rest[n].Kv.ModRevision == number {
			n++
		}
		events := rest[:n]
		rest = rest[n:]
		if known != "" {
			if number != s.last.header.Last || digestOf(events) != known {
				return known, chainEnd("revision %d is not what was recorded: etcd's data was replaced", s.lastRevision())
			}
			known = ""
			continue
		}
		if err := s.builder.add(number, s.stamp(now), events); err != nil {
			return known, err
		}
		if s.builder.size() > maxSegmentSize {
			if err := s.closeSegment(); err != nil {
				return known, err
			}
		}
	}
	return known, nil
}

// stamp is the time for a revision: times in a chain do not decrease, also when the clock is
// set back.
func (s *session) stamp(now time.Time) time.Time {
	last := s.builder.header.LastTime
	if s.builder.empty() && s.last != nil {
		last = s.last.header.LastTime
	}
	return time.UnixMilli(max(now.UnixMilli(), last))
}

func isEncrypted(event *clientv3.Event) bool { return store.IsEncrypted(event.Kv.Value) }

// RecordFiles has the changed files of the identity recorded, also by a server that stops before
// anything else is written: a segment begins with a change of etcd. w may be nil.
func (w *Writer) RecordFiles(ctx context.Context) error {
	if w == nil {
		return nil
	}
	put := clientv3.OpPut("/kube-hyper-mini/certificates", "changed")
	if _, err := w.etcd.GatedKV().Txn(ctx).Then(put).Commit(); err != nil {
		return fmt.Errorf("the journal gets the change with the next write to etcd only: %w", err)
	}
	return nil
}

// addChangedFiles adds the files of the identity that have changed to the segment.
func (s *session) addChangedFiles() error {
	files, err := s.files.changed()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := s.builder.addFile(file); err != nil {
			return err
		}
	}
	return nil
}

// closeSegment puts the changes so far into the spool.
func (s *session) closeSegment() error {
	if s.builder.empty() {
		return nil
	}
	if err := s.addChangedFiles(); err != nil {
		return err
	}
	h := &s.builder.header
	h.Chain, h.Sequence, h.After = s.state.Claim.ID, s.sequence, s.lastRevision()
	if s.last != nil {
		h.Previous = s.last.sum
	}
	header, segment, err := s.builder.finish(s.w.config.Encryption)
	if err != nil {
		return err
	}
	if s.w.spool.size()+int64(len(segment)) > s.w.config.MaxSpool {
		return chainEnd("the destination did not take the changes, and the spool of %d bytes is full (journal.maxSpool)",
			s.w.config.MaxSpool)
	}
	if err := s.w.spool.put(header, segment); err != nil {
		return chainEnd("%v", err)
	}
	s.files.commit()
	s.mu.Lock()
	s.last = &tail{header, sumOf(segment)}
	s.sequence++
	s.since.segments++
	s.since.changes += header.Changes
	s.since.bytes += int64(len(segment))
	s.mu.Unlock()
	select {
	case s.newSegment <- struct{}{}:
	default:
	}
	return nil
}
