package archive

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// checkedTogether is how many intervals of segments are checked together: one listing
	// of a bucket, which costs as much as a write, for 60 segments.
	checkedTogether = 60
	// maxCheckDelay bounds the time until a shipped segment is checked.
	maxCheckDelay = time.Minute
	// maxUnchecked, in bytes, is when segments are checked earlier. For a spool of less
	// than four times that, it is a quarter of the spool.
	maxUnchecked = 64 << 20
	// minRestartDelay and maxRestartDelay bound the time until a new chain begins after
	// one of which the first checked object was damaged.
	minRestartDelay = time.Minute
	maxRestartDelay = time.Hour
)

// check compares shipped segments with what the destination has of them, from time to time
// until ctx ends. It ends the session when the destination does not have what it has
// confirmed.
func (s *session) check(ctx context.Context) {
	ticker := time.NewTicker(min(checkedTogether*s.config.Interval, maxCheckDelay))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.manyUnchecked:
		}
		err := s.checkShipped(ctx)
		if ended := (*endError)(nil); errors.As(err, &ended) {
			s.stop(err)
			return
		}
		if err != nil && ctx.Err() == nil {
			s.reportWriteFailure(ctx, fmt.Errorf("check the archive: %w", err))
		}
	}
}

// checkSoonIfFull makes check begin when much was shipped since it did the last time.
func (s *session) checkSoonIfFull() {
	if _, _, unchecked := s.spool.toCheck(); unchecked < min(maxUnchecked, s.config.MaxSpool/4) {
		return
	}
	select {
	case s.manyUnchecked <- struct{}{}:
	default:
	}
}

// checkShipped checks the segments that were shipped since the last check.
func (s *session) checkShipped(ctx context.Context) error {
	first, next, _ := s.spool.toCheck()
	if first == next {
		return nil
	}
	prefix := chainName(s.state.Number, segmentsDir) + "/"
	listed, err := s.listed(ctx, prefix, prefix+segmentsBefore(first))
	if err != nil {
		return err
	}
	size := int64(0)
	for sequence := first; sequence < next; sequence++ {
		p, err := s.spool.uncheckedSegment(sequence)
		if err != nil {
			return chainEnd("the spool has lost a segment: %v", err)
		}
		if err := s.checkSegment(ctx, p, listed); err != nil {
			return err
		}
		size += int64(len(p.data))
	}
	if err := s.spool.checked(next, size); err != nil {
		return chainEnd("%v", err)
	}
	s.hasVerified.Store(true)
	return nil
}

// listed lists objects of a bucket by name. A directory is not listed: that would read the
// names of a week, and checkCopy reads the content in any case.
func (s *session) listed(ctx context.Context, prefix, after string) (map[string]Object, error) {
	if !isBucket(s.config.Store) {
		return nil, nil
	}
	objects, err := s.config.Store.List(ctx, prefix, after)
	listed := map[string]Object{}
	for _, object := range objects {
		listed[object.Name] = object
	}
	return listed, err
}

// checkSegment checks one segment.
func (s *session) checkSegment(ctx context.Context, p pendingSegment, listed map[string]Object) error {
	name := chainName(s.state.Number, segmentsDir, p.header.Name().String())
	err := s.checkCopy(ctx, name, listed, bytes.NewReader(p.data), int64(len(p.data)))
	damage := (*damageError)(nil)
	if !errors.As(err, &damage) {
		return err
	}
	if err := s.stillOwner(ctx, s.state); err != nil {
		return err // the chain was removed, or the disk is not mounted
	}
	if damage.missing && time.Since(time.UnixMilli(p.header.LastTime)) > s.config.Retention {
		return nil // removed
	}
	whole := s.wholeBefore(p.header)
	s.ledger.recordLoss(whole, time.UnixMilli(p.header.FirstTime).Add(-seenWithin))
	return &endError{reason: fmt.Sprintf("%v; the chain can be restored up to revision %d", damage, whole), damaged: name}
}

// wholeBefore is the last revision that can be restored without the segment.
func (s *session) wholeBefore(segment *Header) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.sequence <= segment.Sequence {
		return max(segment.After, s.since.revision)
	}
	return segment.After
}

// damageError means that the destination has confirmed an object and does not have it as
// it was written.
type damageError struct {
	name    string
	missing bool
	stored  int64 // bytes
	size    int64 // bytes that it has confirmed
}

// Error implements error.
func (e *damageError) Error() string {
	switch {
	case e.missing:
		return fmt.Sprintf("the destination has confirmed %s and does not have it", e.name)
	case e.stored != e.size:
		return fmt.Sprintf("the destination has confirmed %d bytes of %s and has %d of them", e.size, e.name, e.stored)
	}
	return fmt.Sprintf("the destination has confirmed %s and has another content", e.name)
}

// checkCopy compares an object with its size and sum in a listing, or with its content
// when the listing lacks it or has something else, or when the destination is a directory.
// It returns a damageError if they differ.
func (s *session) checkCopy(ctx context.Context, name string, listed map[string]Object, own io.ReadSeeker, size int64) error {
	object, found := listed[name]
	if found && object.SizeBytes == size {
		if object.MD5 == "" || s.md5IsOther.Load() {
			return nil
		}
		sum := md5.New()
		if err := copyFromStart(sum, &cancellable{ctx, own}, own); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) == object.MD5 {
			return nil
		}
	}
	stored, err := s.sameContent(ctx, name, own)
	switch {
	case isMissing(err):
		return &damageError{name: name, missing: true, size: size}
	case errors.Is(err, ErrExists):
		return &damageError{name: name, stored: stored, size: size}
	case err == nil && found && object.SizeBytes == size:
		s.md5IsOther.Store(true) // that in the listing is not of the content
	}
	return err
}

// copyFromStart copies the whole content of source, which from reads.
func copyFromStart(to io.Writer, from io.Reader, source io.Seeker) error {
	if _, err := source.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(to, from)
	return err
}

// sameContent compares an object with its own content. It returns ErrExists if they differ,
// and the size of the object.
func (s *session) sameContent(ctx context.Context, name string, own io.ReadSeeker) (stored int64, err error) {
	body, err := s.config.Store.Open(ctx, name)
	if err != nil {
		return 0, err
	}
	theirs, ours := sha256.New(), sha256.New()
	stored, err = io.Copy(theirs, body)
	if err = errors.Join(err, body.Close()); err == nil {
		err = copyFromStart(ours, &cancellable{ctx, own}, own)
	}
	if err == nil && !bytes.Equal(ours.Sum(nil), theirs.Sum(nil)) {
		err = fmt.Errorf("%s has another content: %w", name, ErrExists)
	}
	return stored, err
}
