package archive

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// lying is a store that confirms objects and keeps something else of them.
type lying struct {
	Store
	// room has the objects that are concerned; count is how many of the next ones.
	room  string
	count atomic.Int64
	// keeps is what is kept of a content; nil keeps nothing.
	keeps func([]byte) []byte
	// lists and opens count the requests for segments.
	lists, opens atomic.Int64
}

func (l *lying) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if !l.concerns(name) || l.count.Add(-1) < 0 {
		return l.Store.Create(ctx, name, body, size)
	}
	if l.keeps == nil {
		return nil
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	kept := l.keeps(data)
	return l.Store.Create(ctx, name, bytes.NewReader(kept), int64(len(kept)))
}

func (l *lying) concerns(name string) bool {
	return path.Base(path.Dir(name)) == l.room || path.Base(name) == l.room
}

func (l *lying) List(ctx context.Context, prefix, after string) ([]Object, error) {
	if strings.HasSuffix(prefix, segmentsDir+"/") {
		l.lists.Add(1)
	}
	return l.Store.List(ctx, prefix, after)
}

func (l *lying) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if l.concerns(name) {
		l.opens.Add(1)
	}
	return l.Store.Open(ctx, name)
}

// lies are the ways in which the store lies, and what the archive says.
var lies = map[string]struct {
	keeps func([]byte) []byte
	want  string
}{
	"nothing":         {nil, "and does not have it"},
	"a part":          {func(data []byte) []byte { return data[:len(data)/2] }, "the destination has confirmed "},
	"no bytes":        {func([]byte) []byte { return nil }, "and has 0 of them"},
	"another content": {func(data []byte) []byte { data[len(data)/2] ^= 1; return data }, "and has another content"},
}

// inBoth runs a test with a directory and with a bucket.
func inBoth(t *testing.T, test func(t *testing.T, store Store)) {
	t.Helper()
	for place, open := range map[string]func(t *testing.T) Store{
		"directory": func(t *testing.T) Store { return NewDirectory(t.TempDir()) },
		"bucket":    func(t *testing.T) Store { return startBucket(t).store(t, credentialsIn(t, "writer")) },
	} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// TestLyingDestination: when the destination does not have a segment that it has confirmed,
// a new chain begins, all say why, and what was archived before can be restored.
func TestLyingDestination(t *testing.T) {
	t.Parallel()
	for name, lie := range lies {
		for _, restart := range []bool{false, true} {
			if restart && lie.keeps != nil {
				continue // the segments that are unchecked then are those of any lie
			}
			t.Run(fmt.Sprintf("%s, restart=%t", name, restart), func(t *testing.T) {
				t.Parallel()
				inBoth(t, func(t *testing.T, store Store) {
					noticesLie(t, &lying{Store: store, room: segmentsDir, keeps: lie.keeps}, lie.want, restart)
				})
			})
		}
	}
}

func noticesLie(t *testing.T, store *lying, want string, restart bool) {
	t.Helper()
	f := start(t, store, t.TempDir(), func(c *Config) {
		if restart {
			c.Interval = time.Second // the first process ends before it checks its segments
		}
	})
	var recorded recorder
	f.writer.RecordEvents(recorded.record)
	if restart { // otherwise the base may have a part of the history
		f.caughtUp()
	}
	f.history(2)
	f.caughtUp()
	good, before := revision(t, f), f.state(0)
	store.count.Store(1)
	f.put("a", "1")
	lost := revision(t, f)
	await(t, "the store lies", func() error {
		if n := store.count.Load(); n > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if restart {
		f.stopWriter()
		f.config.Interval = 20 * time.Millisecond
		f.startWriter()
		f.writer.RecordEvents(recorded.record)
	}
	await(t, "a new chain has a base", func() error {
		if chains := claims(t, store); len(chains) != 2 || len(chains[1].Bases) == 0 {
			return fmt.Errorf("%+v", chains)
		}
		return nil
	})
	f.put("b", "1")
	f.caughtUp()
	restoresAll(t, f, store)
	recorded.wants(t, "ArchiveChainEnded", want, chainName(1, segmentsDir))
	recorded.wants(t, "ArchiveWorks")
	claim := claims(t, store)[1].Claim
	wants(t, errors.New(claim.Reason), want)
	if p := claim.Predecessor; p == nil || p.Last != good || !strings.HasPrefix(p.Damaged, chainName(1, segmentsDir)) {
		t.Errorf("the predecessor is %+v, want revision %d", p, good)
	}
	windows, err := Windows(t.Context(), store)
	if err != nil || len(windows) != 2 {
		t.Fatalf("windows: %+v, %v", windows, err)
	}
	if gap := windows[1].Gap; windows[0].LastRevision != good || len(windows[0].Gaps) == 0 || lost+1 < windows[1].FirstRevision && (gap == nil || gap.FirstRevision != lost) {
		t.Errorf("windows: %+v with the gap %+v, want an end at revision %d", windows, gap, good)
	}
	if got, _, err := restore(t, store, Target{Revision: good}); err != nil || !maps.Equal(got, before) {
		t.Errorf("revision %d is %v, %v, want %v", good, got, err, before)
	}
}

// eachLie runs a test with destinations that tell each lie about the first count objects of
// the room.
func eachLie(t *testing.T, room string, count int64, test func(t *testing.T, l *lying, want string)) {
	t.Helper()
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBoth(t, func(t *testing.T, store Store) {
				l := &lying{Store: store, room: room, keeps: lie.keeps}
				l.count.Store(count)
				test(t, l, lie.want)
			})
		})
	}
}

// TestLyingAboutBases: a base that the destination does not have ends its chain, and the
// next chain has one.
func TestLyingAboutBases(t *testing.T) {
	t.Parallel()
	eachLie(t, basesDir, 1, func(t *testing.T, l *lying, want string) {
		f := start(t, l, t.TempDir(), nil)
		f.history(1)
		f.caughtUp()
		restoresAll(t, f, l)
		chains := claims(t, l)
		if len(chains) != 2 || len(chains[1].Bases) != 1 {
			t.Fatalf("chains: %+v", chains)
		}
		wants(t, errors.New(chains[1].Claim.Reason), want, chainName(1, basesDir))
	})
}

// TestLyingAboutTheClaim: a destination that does not keep the first object is refused.
func TestLyingAboutTheClaim(t *testing.T) {
	t.Parallel()
	eachLie(t, chainFile, 1000, func(t *testing.T, l *lying, _ string) {
		f := start(t, l, t.TempDir(), nil)
		await(t, "the account has the error", func() error {
			if a := f.writer.Account(t.Context()); !strings.Contains(a.Error, "and does not have it as it was written") {
				return errors.New(a.Error)
			}
			return nil
		})
	})
}

// summed is a bucket whose listing has the sums that sum computes.
type summed struct {
	Store
	sum func([]byte) string
}

func (s *summed) List(ctx context.Context, prefix, after string) ([]Object, error) {
	objects, err := s.Store.List(ctx, prefix, after)
	for i := range objects {
		data, err := readAll(ctx, s.Store, objects[i].Name, maxSegment)
		if err != nil {
			return nil, err
		}
		objects[i].MD5 = s.sum(data)
	}
	return objects, err
}

// TestRequestsOfACheck: one listing checks all segments of a bucket, and segments that were
// checked are not checked again. Only where the sums of the listing are not of the content,
// one segment is read.
func TestRequestsOfACheck(t *testing.T) {
	t.Parallel()
	content := func(data []byte) string { sum := md5.Sum(data); return hex.EncodeToString(sum[:]) }
	for name, c := range map[string]struct {
		sum   func([]byte) string
		opens int64
	}{
		"with sums":    {content, 0},
		"without sums": {func([]byte) string { return "" }, 0},
		"other sums":   {func(data []byte) string { return content(append(data, 0)) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &lying{Store: &summed{startBucket(t).store(t, credentialsIn(t, "writer")), c.sum}, room: segmentsDir}
			f := start(t, store, t.TempDir(), nil)
			for range 5 {
				f.history(1)
				f.caughtUp()
			}
			f.stopWriter()
			s, err := f.writer.resume()
			if err != nil || s == nil {
				t.Fatalf("there is no chain to resume: %v", err)
			}
			if first, next, bytes := s.spool.toCheck(); first == next || bytes == 0 {
				t.Fatalf("segments from %d to before %d are unchecked, with %d bytes", first, next, bytes)
			}
			store.lists.Store(0)
			store.opens.Store(0)
			for range 2 {
				if err := s.checkShipped(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if lists, opens := store.lists.Load(), store.opens.Load(); lists != 1 || opens != c.opens {
				t.Errorf("%d listings and %d reads, want 1 and %d", lists, opens, c.opens)
			}
			if first, next, bytes := s.spool.toCheck(); first != next || bytes != 0 {
				t.Errorf("segments from %d to before %d are unchecked, with %d bytes", first, next, bytes)
			}
			f.startWriter() // continues from the last segment, which is kept
			f.history(1)
			f.caughtUp()
			if chains := claims(t, store); len(chains) != 1 {
				t.Errorf("chains: %+v", chains)
			}
		})
	}
}
