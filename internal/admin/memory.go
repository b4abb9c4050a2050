package admin

import (
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Memory is the memory that a process uses.
type Memory struct {
	// ResidentBytes is the resident memory; 0 where it cannot be read.
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
	registry := prometheus.NewRegistry()
	if err := registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})); err != nil {
		return usage, fmt.Errorf("read the resident memory: %w", err)
	}
	families, err := registry.Gather()
	if err != nil {
		return usage, fmt.Errorf("read the resident memory: %w", err)
	}
	for _, family := range families {
		if family.GetName() == "process_resident_memory_bytes" {
			usage.ResidentBytes = int64(family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return usage, nil
}
