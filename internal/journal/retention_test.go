package journal

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRetention removes what is older and not needed any more: bases and segments
// before the last base that is old enough, and chains that ended before.
func TestRetention(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.history(2)
	f.caughtUp()
	f.stopWriter()
	f.history(1)
	f.compact(revision(t, f) - 1)
	f.startWriter() // a second chain
	f.caughtUp()
	f.history(2)
	f.caughtUp()
	f.stopWriter()
	for range 4 {
		f.makeBase()
	}
	s := f.makeBase()
	before := names(t, store, chainsPrefix)
	if err := s.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := names(t, store, chainsPrefix); len(after) != len(before) {
		t.Errorf("within the retention something was removed: %q of %q", after, before)
	}
	s.w.config.Retention = 2 * time.Nanosecond
	if err := s.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := names(t, store, chainName(1)); len(left) > 0 {
		t.Errorf("of the first chain there is %q", left)
	}
	if bases := names(t, store, chainName(2, basesDir)); len(bases) != 5 {
		t.Errorf("bases of the second chain: %q", bases)
	}
	if segments := names(t, store, chainName(2, segmentsDir)); len(segments) > 0 {
		t.Errorf("segments before the base: %q", segments)
	}
	restoresAll(t, f, store)
}

// TestRetentionOfChainsWithoutBase removes all chains before one that is old enough
// at once.
func TestRetentionOfChainsWithoutBase(t *testing.T) {
	t.Parallel()
	store := NewDirectory(t.TempDir())
	put := func(name, content string) {
		if err := store.Create(t.Context(), name, strings.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
	}
	for number := 1; number <= 5; number++ {
		claim, err := json.Marshal(Claim{Format: Format, ID: fmt.Sprint(number), Writer: "w"})
		if err != nil {
			t.Fatal(err)
		}
		put(chainName(number, chainFile), string(claim))
		if number == 1 || number >= 4 {
			for i := range 3 {
				base := BaseName{Revision: int64(10*number + i), Sequence: 1, Time: time.Unix(int64(60*(4*number+i)), 0), Extension: ".tar.gz"}
				put(chainName(number, basesDir, base.String()), "x")
			}
		}
	}
	s := &session{w: NewWriter(Config{Store: store, DataDir: t.TempDir(), Retention: 2 * time.Minute})}
	if err := s.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := names(t, store, chainsPrefix); len(left) != 7 || !strings.HasPrefix(left[0], chainName(4)) {
		t.Errorf("there is %q", left)
	}
}

// TestClockSetBack: a base is not older than the changes in it, so that a moment
// before them is not restored from it; and a chain that is gone ends.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.caughtUp()
	f.history(1)
	f.caughtUp()
	f.stopWriter()
	s, err := f.writer.resume(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := time.Now().Add(time.Hour)
	s.last.header.LastTime = seen.UnixMilli()
	if err := s.makeBase(t.Context()); err != nil {
		t.Fatal(err)
	}
	bases := claims(t, store)[0].Bases
	if last := bases[len(bases)-1]; last.Time.Before(seen.Truncate(time.Millisecond)) {
		t.Errorf("the base is of %s, and has changes of %s", last.Time, seen)
	}
	if err := f.writer.stillOwner(t.Context(), s.state); err != nil {
		t.Error(err)
	}
	if err := store.Remove(t.Context(), chainName(1, chainFile)); err != nil {
		t.Fatal(err)
	}
	wants(t, f.writer.stillOwner(t.Context(), s.state), "has disappeared or cannot be read")
}
