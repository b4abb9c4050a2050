package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// heldHeap is the memory at which the holds of the tests end.
const heldHeap = 192 << 20

// gcPercent returns GOGC.
func gcPercent() int64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(sample)
	if sample[1].Value.Uint64() == heldHeap {
		return -1
	}
	return int64(sample[0].Value.Uint64())
}

func TestHold(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	release := Hold(70, heldHeap)
	if got := gcPercent(); got != -1 {
		t.Errorf("collections are not held, GOGC is %d", got)
	}
	release()
	if got := gcPercent(); got != 70 {
		t.Errorf("after the release, GOGC is %d", got)
	}
	release()
}

// TestHoldEndsWithTheMemory: above heldHeap, a start collects garbage as usual, not for each
// allocation.
func TestHoldEndsWithTheMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before); sink = nil })
	release := Hold(70, heldHeap)
	defer release()
	for range 100 { // far more than is held
		sink = append(sink, make([]byte, heldHeap/50))
		if gcPercent() == 70 {
			return
		}
	}
	for gcPercent() != 70 { // the cleanup runs soon after the collection
		runtime.Gosched()
	}
}

func TestHoldLeavesTheSettingsOfTheUser(t *testing.T) {
	t.Setenv("GOGC", "40")
	before := debug.SetGCPercent(40)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	release := Hold(70, heldHeap)
	release()
	if got := gcPercent(); got != 40 {
		t.Errorf("GOGC is %d", got)
	}
}
