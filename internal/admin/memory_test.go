package admin

import (
	"runtime"
	"testing"
)

func TestReadMemory(t *testing.T) {
	usage := readMemory()
	if usage.HeapBytes <= 0 || usage.Goroutines < 1 {
		t.Errorf("usage %+v", usage)
	}
	if runtime.GOOS == "linux" && (usage.AnonymousBytes < usage.HeapBytes/2 || usage.ResidentBytes <= usage.AnonymousBytes) {
		t.Errorf("anonymous %d, resident %d, heap %d", usage.AnonymousBytes, usage.ResidentBytes, usage.HeapBytes)
	}
}
