package admin

import (
	"runtime"
	"testing"
)

func TestReadMemory(t *testing.T) {
	usage, err := readMemory()
	if err != nil || usage.HeapBytes <= 0 || usage.Goroutines < 1 {
		t.Errorf("usage %+v, %v", usage, err)
	}
	if runtime.GOOS == "linux" && usage.ResidentBytes < usage.HeapBytes/2 {
		t.Errorf("resident %d, heap %d", usage.ResidentBytes, usage.HeapBytes)
	}
}
