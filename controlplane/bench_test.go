package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane/controlplanetest"
)

// `make bench RUN=library` runs each of these in a process of its own, once.

// servers is the number of control planes of BenchmarkServers.
const servers = 20

// settleTime is the rest before memory is measured.
const settleTime = 15 * time.Second

// BenchmarkServers starts many control planes in one process and measures what each takes beside
// the first one.
func BenchmarkServers(b *testing.B) {
	for range b.N {
		running := []*controlplane.ControlPlane{start(b, controlplane.Options{})}
		before := measure(b)
		began := time.Now()
		for len(running) < servers {
			running = append(running, start(b, controlplane.Options{}))
		}
		b.ReportMetric(time.Since(began).Seconds()/(servers-1), "s/start")
		after := measure(b)
		b.ReportMetric((after.anonymous-before.anonymous)/(servers-1), "B-anonymous/server")
		b.ReportMetric((after.heap-before.heap)/(servers-1), "B-heap/server")
		b.ReportMetric((after.goroutines-before.goroutines)/(servers-1), "goroutines/server")
		began = time.Now()
		for _, cp := range running {
			if err := cp.Stop(context.Background()); err != nil {
				b.Error(err)
			}
		}
		b.ReportMetric(time.Since(began).Seconds()/servers, "s/stop")
	}
}

// restarts is the number of control planes of BenchmarkRestarts.
const restarts = 200

// BenchmarkRestarts starts and stops control planes one after the other and measures what the
// process has more after the last than after the third.
func BenchmarkRestarts(b *testing.B) {
	for range b.N {
		var third usage
		for i := range restarts {
			if err := start(b, controlplane.Options{}).Stop(context.Background()); err != nil {
				b.Fatal(err)
			}
			if i == 2 {
				third = measure(b)
			}
		}
		last := measure(b)
		b.ReportMetric(last.heap-third.heap, "B-heap")
		b.ReportMetric(last.goroutines-third.goroutines, "goroutines")
		b.ReportMetric(last.descriptors-third.descriptors, "descriptors")
	}
}

// BenchmarkTest measures the server of a test, after the first one of the process.
func BenchmarkTest(b *testing.B) {
	const tests = 10
	controlplanetest.Start(b)
	var starts, stops time.Duration
	for range tests {
		began := time.Now()
		server := controlplanetest.Start(b)
		starts += time.Since(began)
		began = time.Now()
		if err := server.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		stops += time.Since(began)
	}
	b.ReportMetric(starts.Seconds()/tests, "s/start")
	b.ReportMetric(stops.Seconds()/tests, "s/stop")
}

// usage is what the process takes. Memory is in bytes.
type usage struct{ anonymous, heap, goroutines, descriptors float64 }

var anonymousLine = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)

// measure lets the process come to rest, collects the garbage and measures. Linux only.
func measure(b *testing.B) usage {
	b.Helper()
	time.Sleep(settleTime)
	runtime.GC() // pools keep their content for one collection
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(fmt.Errorf("memory is measured on Linux only: %w", err))
	}
	found := anonymousLine.FindSubmatch(status)
	if found == nil {
		b.Fatal("/proc/self/status has no line RssAnon")
	}
	kilobytes, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.Fatal(err)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return usage{kilobytes * 1024, float64(memory.HeapAlloc), float64(runtime.NumGoroutine()), float64(len(descriptors))}
}
