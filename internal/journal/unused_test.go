package journal

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestWaitUnused: a chain is unused when its server has stopped in order, or writes nothing.
func TestWaitUnused(t *testing.T) {
	t.Parallel()
	_, f := made(t)
	store := f.config.Store
	ended := make(chan error, 1)
	said := ""
	say := func(format string, args ...any) { said = fmt.Sprintf(format, args...) }
	go func() { ended <- waitUnused(t.Context(), store, 3*time.Second, say) }()
	var err error
	for waiting := true; waiting; {
		select {
		case err = <-ended:
			waiting = false
		case <-time.After(f.config.Interval):
			f.put("key", "value") // its end follows after ten intervals
		}
	}
	wants(t, err, "another server writes the journal")
	if !strings.Contains(said, "did not stop in order: waiting until ") {
		t.Errorf("it says %q", said)
	}
	f.stopWriter()
	said = ""
	if err := waitUnused(t.Context(), store, time.Hour, say); err != nil || said != "" {
		t.Errorf("after an orderly stop: %v, it says %q", err, said)
	}
	if err := store.Remove(t.Context(), names(t, store, chainName(1, endsDir))[0]); err != nil {
		t.Fatal(err)
	}
	if err := waitUnused(t.Context(), store, time.Millisecond, say); err != nil {
		t.Errorf("of a server that was killed before the first end: %v", err)
	}
}
