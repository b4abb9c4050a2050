package admin

import (
	"runtime"

	"github.com/prometheus/procfs"
)

// Memory is the memory that a process uses.
type Memory struct {
	// AnonymousBytes is the resident memory without the pages of files, which the kernel
	// takes back when it needs them; 0 where it cannot be read.
	AnonymousBytes int64 `json:"anonymousBytes,omitempty"`
	// ResidentBytes is the resident memory with the pages of files; 0 where it cannot be read.
	ResidentBytes int64 `json:"residentBytes,omitempty"`
	// HeapBytes is the part of Go's heap that is in use.
	HeapBytes int64 `json:"heapBytes"`
	// Goroutines is their number.
	Goroutines int `json:"goroutines"`
}

// readMemory returns the memory that this process uses. It stops the world for some
// microseconds.
func readMemory() Memory {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	usage := Memory{HeapBytes: int64(stats.HeapAlloc), Goroutines: runtime.NumGoroutine()}
	process, err := procfs.Self()
	if err != nil {
		return usage // another platform than Linux
	}
	if status, err := process.NewStatus(); err == nil { // it is optional
		usage.AnonymousBytes, usage.ResidentBytes = int64(status.RssAnon), int64(status.VmRSS)
	}
	return usage
}
