package journal

import (
	"testing"
	"time"
)

// TestWaitUnused: a chain is unused when its server has stopped in order, or writes nothing.
func TestWaitUnused(t *testing.T) {
	t.Parallel()
	_, f := made(t)
	store := f.config.Store
	ended := make(chan error, 1)
	go func() { ended <- waitUnused(t.Context(), store, 3*time.Second) }()
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
	f.stopWriter()
	if err := waitUnused(t.Context(), store, time.Hour); err != nil {
		t.Errorf("after an orderly stop: %v", err)
	}
	if err := store.Remove(t.Context(), names(t, store, chainName(1, endsDir))[0]); err != nil {
		t.Fatal(err)
	}
	if err := waitUnused(t.Context(), store, time.Millisecond); err != nil {
		t.Errorf("of an older release, without an end: %v", err)
	}
}
