package admin

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/dustin/go-humanize"
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
func readMemory() (Memory, error) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	usage := Memory{HeapBytes: int64(stats.HeapAlloc), Goroutines: runtime.NumGoroutine()}
	status, err := os.ReadFile("/proc/self/status")
	if errors.Is(err, os.ErrNotExist) {
		return usage, nil // another platform than Linux
	}
	if err != nil {
		return usage, fmt.Errorf("read the memory of this process: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "VmRSS" && name != "RssAnon" {
			continue
		}
		size, err := humanize.ParseBytes(strings.Replace(strings.TrimSpace(value), "kB", "KiB", 1))
		if err != nil {
			return usage, fmt.Errorf("read the memory of this process: %q: %w", line, err)
		}
		if name == "RssAnon" {
			usage.AnonymousBytes = int64(size)
		} else {
			usage.ResidentBytes = int64(size)
		}
	}
	return usage, nil
}
