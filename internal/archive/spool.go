package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// spool is the directory with segments on their way to the destination. Files are
// not synced: after a power failure, etcd has what a file lacks.
type spool struct {
	dir string

	mu      sync.Mutex
	pending []pendingSegment // in order
	bytes   int64
}

// pendingSegment is a segment in the spool.
type pendingSegment struct {
	header *Header
	sum    string
	size   int64
}

// tail is the last segment that was made, shipped or not.
type tail struct {
	header *Header
	sum    string
}

func (s *spool) pendingDir() string { return filepath.Join(s.dir, "segments") }
func (s *spool) shippedDir() string { return filepath.Join(s.dir, "shipped") }
func (s *spool) path(h *Header) string {
	return filepath.Join(s.pendingDir(), h.Name().String())
}

// clear removes everything and makes the directories.
func (s *spool) clear() error {
	s.mu.Lock()
	s.pending, s.bytes = nil, 0
	s.mu.Unlock()
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("empty the spool of the archive: %w", err)
	}
	for _, dir := range []string{s.pendingDir(), s.shippedDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the spool of the archive: %w", err)
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
	s.pending, s.bytes = nil, 0
	var last *tail
	for _, dir := range []string{s.shippedDir(), s.pendingDir()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("read the spool of the archive: %w", err)
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("read the spool of the archive: %w", err)
			}
			header, _, err := readHeader(data)
			follows := err == nil && header.Chain == chain &&
				(last == nil && (header.Sequence == 1 || dir == s.shippedDir()) || last != nil && header.Sequence == last.header.Sequence+1 && header.Previous == last.sum)
			if !follows && last != nil && err == nil && header.Sequence <= last.header.Sequence {
				follows = false // shipped already
			}
			if !follows {
				if err := os.Remove(path); err != nil {
					return nil, fmt.Errorf("clean the spool of the archive: %w", err)
				}
				continue
			}
			last = &tail{header, sumOf(data)}
			if dir == s.pendingDir() {
				s.pending = append(s.pending, pendingSegment{header, last.sum, int64(len(data))})
				s.bytes += int64(len(data))
			}
		}
	}
	return last, nil
}

// put adds a segment.
func (s *spool) put(header *Header, segment []byte) error {
	path := s.path(header)
	if err := os.WriteFile(path, segment, 0o600); err != nil {
		return errors.Join(fmt.Errorf("write to the spool of the archive: %w", err), os.Remove(path))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, pendingSegment{header, sumOf(segment), int64(len(segment))})
	s.bytes += int64(len(segment))
	return nil
}

// first is the oldest segment that is not shipped.
func (s *spool) first() (pendingSegment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return pendingSegment{}, false
	}
	return s.pending[0], true
}

// size is how many bytes are pending.
func (s *spool) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// shipped records that the oldest segment has reached the destination. The file is kept
// until the next one is shipped: a later process continues from it.
func (s *spool) shipped(p pendingSegment) error {
	name := p.header.Name().String()
	if err := os.Rename(s.path(p.header), filepath.Join(s.shippedDir(), name)); err != nil {
		return fmt.Errorf("keep the last segment in the spool of the archive: %w", err)
	}
	s.mu.Lock()
	s.pending = slices.Delete(s.pending, 0, 1)
	s.bytes -= p.size
	s.mu.Unlock()
	entries, err := os.ReadDir(s.shippedDir())
	if err != nil {
		return fmt.Errorf("clean the spool of the archive: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() < name {
			if err := os.Remove(filepath.Join(s.shippedDir(), entry.Name())); err != nil {
				return fmt.Errorf("clean the spool of the archive: %w", err)
			}
		}
	}
	return nil
}
