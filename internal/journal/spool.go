package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// spool is the directory with segments on their way to the destination. Its memory does
// not grow with their number. Files are not synced: after a power failure, etcd has what a
// file lacks.
type spool struct {
	dir string

	mu sync.Mutex
	// The segments from first on, before next, are pending. Their files have bytes bytes.
	first, next int
	bytes       int64
}

// pendingSegment is a segment in the spool.
type pendingSegment struct {
	header *Header
	data   []byte
}

// tail is the last segment that was made, shipped or not.
type tail struct {
	header *Header
	sum    string
}

func (s *spool) pendingDir() string { return filepath.Join(s.dir, "segments") }
func (s *spool) shippedDir() string { return filepath.Join(s.dir, "shipped") }

// spoolName is the name of a segment's file.
func spoolName(sequence int) string { return segmentsBefore(sequence) + segmentEnd }

func (s *spool) path(sequence int) string { return filepath.Join(s.pendingDir(), spoolName(sequence)) }

// clear removes everything and makes the directories.
func (s *spool) clear() error {
	s.mu.Lock()
	s.first, s.next, s.bytes = 0, 0, 0
	s.mu.Unlock()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("empty the spool of the journal: %w", err)
	}
	for _, dir := range []string{s.pendingDir(), s.shippedDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the spool of the journal: %w", err)
		}
	}
	return nil
}

// load reads what an earlier process has left of the chain and returns the last
// segment of it; nil if there is none. Segments that are not whole, and those after
// them, are removed.
func (s *spool) load(chain string) (*tail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first, s.next, s.bytes = 0, 0, 0
	var last *tail
	for _, dir := range []string{s.shippedDir(), s.pendingDir()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("read the spool of the journal: %w", err)
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("read the spool of the journal: %w", err)
			}
			header, _, err := readHeader(data)
			follows := err == nil && header.Chain == chain &&
				(last == nil && (header.Sequence == 1 || dir == s.shippedDir()) ||
					last != nil && header.Sequence == last.header.Sequence+1 && header.Previous == last.sum)
			if !follows { // or shipped already
				if err := os.Remove(path); err != nil {
					return nil, fmt.Errorf("clean the spool of the journal: %w", err)
				}
				continue
			}
			last = &tail{header, sumOf(data)}
			s.pend(header.Sequence, len(data))
			if dir == s.shippedDir() {
				s.ship(len(data))
			}
		}
	}
	return last, nil
}

// pend records a pending segment. The caller holds mu.
func (s *spool) pend(sequence, size int) {
	if s.next == 0 {
		s.first = sequence
	}
	s.next = sequence + 1
	s.bytes += int64(size)
}

// ship records that the oldest pending segment was shipped. The caller holds mu.
func (s *spool) ship(size int) {
	s.first++
	s.bytes -= int64(size)
}

// put adds a segment.
func (s *spool) put(header *Header, segment []byte) error {
	path := s.path(header.Sequence)
	if err := os.WriteFile(path, segment, 0o600); err != nil {
		return errors.Join(fmt.Errorf("write to the spool of the journal: %w", err), os.Remove(path))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pend(header.Sequence, len(segment))
	return nil
}

// empty reports whether no segment is pending.
func (s *spool) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first == s.next
}

// oldest returns the oldest pending segment. It fails if the file is not what was written.
func (s *spool) oldest() (pendingSegment, error) {
	s.mu.Lock()
	sequence := s.first
	s.mu.Unlock()
	path := s.path(sequence)
	data, err := os.ReadFile(path)
	if err != nil {
		return pendingSegment{}, err
	}
	header, _, err := readHeader(data)
	if err == nil && header.Sequence != sequence {
		err = fmt.Errorf("%w: it is segment %d", ErrDamaged, header.Sequence)
	}
	if err != nil {
		return pendingSegment{}, fmt.Errorf("%s: %w", path, err)
	}
	return pendingSegment{header, data}, nil
}

// size is how many bytes are pending.
func (s *spool) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// shippedBefore is the number after the last segment that was shipped.
func (s *spool) shippedBefore() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// shipped records that the destination has confirmed the oldest segment. Its file is kept
// until the next one is shipped: a later process continues from the last one.
func (s *spool) shipped(p pendingSegment) error {
	name := spoolName(p.header.Sequence)
	if err := os.Rename(s.path(p.header.Sequence), filepath.Join(s.shippedDir(), name)); err != nil {
		return fmt.Errorf("keep the last segment in the spool of the journal: %w", err)
	}
	s.mu.Lock()
	s.ship(len(p.data))
	s.mu.Unlock()
	before := filepath.Join(s.shippedDir(), spoolName(p.header.Sequence-1))
	if err := os.Remove(before); err != nil && !isMissing(err) {
		return fmt.Errorf("clean the spool of the journal: %w", err)
	}
	return nil
}
