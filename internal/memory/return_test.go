package memory

import (
	"runtime/debug"
	"testing"
)

var sink [][]byte

func TestUnusedCountsGarbage(t *testing.T) {
	debug.FreeOSMemory()
	before := readHeap()
	if before.allocated == 0 || before.objects == 0 {
		t.Fatalf("the runtime has no such metrics: %+v", before)
	}
	for range 64 {
		sink = append(sink, make([]byte, 1<<20))
	}
	debug.FreeOSMemory()
	if used := readHeap(); used.live < before.live+60<<20 || used.unused() > 32<<20 {
		t.Errorf("64 MB in use are counted as unused: %+v", used)
	}
	sink = nil
	if garbage := readHeap(); garbage.allocated < before.allocated+60<<20 {
		t.Errorf("allocations are not counted: %+v", garbage)
	}
	debug.FreeOSMemory()
	if after := readHeap(); after.live > before.live+32<<20 || after.unused() > 32<<20 {
		t.Errorf("memory was not returned: %+v", after)
	}
}

// TestExceedsUse: a process that is not idle keeps the memory that it uses.
func TestExceedsUse(t *testing.T) {
	for _, test := range []struct {
		unused, allocated uint64
		want              bool
	}{{100 << 20, 20 << 20, true}, {100 << 20, 60 << 20, false}, {100 << 20, 1 << 30, false}, {31 << 20, 1 << 20, false}} {
		if got := exceedsUse(test.unused, test.allocated); got != test.want {
			t.Errorf("%d MB unused, %d MB allocated: %t", test.unused>>20, test.allocated>>20, got)
		}
	}
}

// TestReturnAll: memory that was in use at the last collection is returned, too.
func TestReturnAll(t *testing.T) {
	for range 64 {
		sink = append(sink, make([]byte, 1<<20))
	}
	debug.FreeOSMemory()
	used := readHeap()
	sink = nil
	if unused := readHeap().unused(); unused > 4<<20 {
		t.Fatalf("%d MB are counted as unused", unused>>20)
	}
	returnAll()
	if after := readHeap(); after.objects > used.objects-60<<20 {
		t.Errorf("%d MB are used after it, %d before", after.objects>>20, used.objects>>20)
	}
}
