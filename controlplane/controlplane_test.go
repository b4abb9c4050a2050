package controlplane_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// TestStopLeavesNoGoroutines: control planes that have stopped leave nothing that runs.
func TestStopLeavesNoGoroutines(t *testing.T) {
	stopped := func() {
		if err := start(t, controlplane.Options{}).Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	stopped() // starts what is started once for the process
	before := 0
	for before != runtime.NumGoroutine() { // the last ones end
		before = runtime.NumGoroutine()
		time.Sleep(100 * time.Millisecond)
	}
	const lives = 3
	for range lives {
		stopped()
	}
	awaitGoroutines(t, before+lives-1)
}

// awaitGoroutines waits until the process has at most so many goroutines.
func awaitGoroutines(t *testing.T, most int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > most {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines are left instead of %d:\n%s", runtime.NumGoroutine(), most, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}
