package etcd

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestStopEndsAllGoroutines: starting and stopping a member leaves no goroutine.
func TestStopEndsAllGoroutines(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	stop(t, start(t, dir)) // starts what is started once for the process
	before := runtime.NumGoroutine()
	const lives = 3
	for range lives {
		stop(t, start(t, dir))
	}
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() >= before+lives {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines have become %d:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}
