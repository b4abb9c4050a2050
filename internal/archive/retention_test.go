package archive

import (
	"fmt"
	"testing"
	"time"
)

// TestRetention removes what is older and not needed any more: bases and segments
// before the last base that is old enough, and chains that ended before.
func TestRetention(t *testing.T) {
	t.Parallel()
	store := NewDirectory(t.TempDir())
	f := start(t, store, t.TempDir(), nil)
	f.history(2)
	f.caughtUp()
	f.stopWriter()
	f.history(1)
	if _, err := f.member.Client().Compact(t.Context(), revision(t, f)-1); err != nil {
		t.Fatal(err)
	}
	f.startWriter() // a second chain
	f.caughtUp()
	f.history(2)
	f.caughtUp()
	f.stopWriter()
	s, err := f.writer.resume()
	if err == nil {
		err = s.makeBase(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	before := names(t, store, chainsPrefix)
	if err := s.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := names(t, store, chainsPrefix); len(after) != len(before) {
		t.Errorf("within the retention something was removed: %q of %q", after, before)
	}
	s.config.Retention = time.Nanosecond
	if err := s.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := names(t, store, chainName(1)); len(left) > 0 {
		t.Errorf("of the first chain there is %q", left)
	}
	if bases := names(t, store, chainName(2, basesDir)); len(bases) != 1 {
		t.Errorf("bases of the second chain: %q", bases)
	}
	if segments := names(t, store, chainName(2, segmentsDir)); len(segments) > 0 {
		t.Errorf("segments before the base: %q", segments)
	}
	if got, _, err := restore(t, store, Target{}); err != nil || fmt.Sprint(got) != fmt.Sprint(f.state(0)) {
		t.Errorf("the newest state is %v, %v", got, err)
	}
}
