package journal

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
)

// TestSpoolMemory: pending segments take no memory, so that a long outage does not either,
// and they are shipped in order.
func TestSpoolMemory(t *testing.T) {
	s := &spool{dir: t.TempDir()}
	if err := s.clear(); err != nil {
		t.Fatal(err)
	}
	b, err := newBuilder()
	if err != nil {
		t.Fatal(err)
	}
	put := func(sequence int, previous string) string {
		t.Helper()
		event := &clientv3.Event{Type: mvccpb.PUT, Kv: &mvccpb.KeyValue{Key: []byte("/registry/a"), ModRevision: int64(sequence), CreateRevision: 1, Version: 1}}
		if err := b.add(int64(sequence), time.Now(), []*clientv3.Event{event}); err != nil {
			t.Fatal(err)
		}
		b.header.Chain, b.header.Sequence, b.header.Previous = "chain", sequence, previous
		header, segment, err := b.finish(backup.Encryption{})
		if err == nil {
			err = s.put(header, segment)
		}
		if err != nil {
			t.Fatal(err)
		}
		return sumOf(segment)
	}
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	previous := put(1, "")
	before := heap()
	const count, limit = 5000, 500_000
	for sequence := 2; sequence <= count; sequence++ {
		previous = put(sequence, previous)
	}
	if after := heap(); after > before+limit {
		t.Errorf("%d pending segments take %d bytes of memory, want %d at most", count, after-before, limit)
	}
	size := s.size()
	again := &spool{dir: s.dir}
	if last, err := again.load("chain"); err != nil || last == nil || last.header.Sequence != count || last.sum != previous || again.size() != size {
		t.Fatalf("another process finds %+v with %d bytes, %v, want %d bytes", last, again.size(), err, size)
	}
	for sequence := 1; sequence <= 10; sequence++ {
		p, err := again.oldest()
		if err == nil && p.header.Sequence != sequence {
			err = fmt.Errorf("it is segment %d", p.header.Sequence)
		}
		if err == nil {
			err = again.shipped(p)
		}
		if err != nil {
			t.Fatalf("segment %d: %v", sequence, err)
		}
	}
	if again.size() >= size || again.empty() {
		t.Errorf("%d bytes are pending after segments were shipped, %d before", again.size(), size)
	}
}

// TestReplayTime: a base is due when a replay would take longer than a minute.
func TestReplayTime(t *testing.T) {
	t.Parallel()
	made := time.Now()
	for _, c := range []struct {
		since sinceBase
		due   bool
	}{
		{sinceBase{}, true}, // there is none
		{sinceBase{made: made}, false},
		{sinceBase{made: made, segments: maxSegments}, false},
		{sinceBase{made: made, segments: maxSegments + 1}, true},
		{sinceBase{made: made, segments: 1, bytes: maxBytes}, false},
		{sinceBase{made: made, segments: 1, bytes: maxBytes + 1}, true},
		{sinceBase{made: made, segments: 1, changes: maxChanges}, false},
		{sinceBase{made: made, segments: 1, changes: maxChanges + 1}, true},
		{sinceBase{made: made.Add(-25 * time.Hour), segments: 1}, true},
		{sinceBase{made: made.Add(-25 * time.Hour)}, false}, // nothing has changed
	} {
		s := &session{w: NewWriter(Config{Store: NewDirectory(t.TempDir()), Retention: 100 * time.Hour}), since: c.since}
		if due := s.baseDue(); due != c.due {
			t.Errorf("%+v: a base is due: %t", c.since, due)
		}
	}
}
