package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// libraryRows are of control planes in a Go program; the other side has nothing of the kind. They
// are what the benchmarks of controlplane report, in this order.
var libraryRows = []row{
	{name: "library: 20 in one process, start of each after the first", unit: inSeconds, limit: 0.2},
	{name: "library: 20 in one process, anonymous memory of each, idle", unit: inBytes, limit: 14e6},
	{name: "library: 20 in one process, live heap of each", unit: inBytes},
	{name: "library: 20 in one process, goroutines of each", unit: plain},
	{name: "library: 20 in one process, stop of each", unit: inSeconds},
	{name: "library: heap that 197 more starts and stops leave", unit: inBytes, limit: 2e6},
	{name: "library: goroutines that they leave", unit: plain},
	{name: "library: descriptors that they leave", unit: plain},
	{name: "library: start of the server of a test", unit: inSeconds, limit: 0.15},
	{name: "library: stop of the server of a test", unit: inSeconds, limit: 0.05},
}

// libraryBenchmarks are the benchmarks, with the units of what they report.
var libraryBenchmarks = []struct {
	name  string
	units []string
}{
	{"BenchmarkServers", []string{"s/start", "B-anonymous/server", "B-heap/server", "goroutines/server", "s/stop"}},
	{"BenchmarkRestarts", []string{"B-heap", "goroutines", "descriptors"}},
	{"BenchmarkTest", []string{"s/start", "s/stop"}},
}

// measureLibrary runs the benchmarks of package controlplane, each in a process of its own.
func measureLibrary(ctx context.Context, b *bench, s side) (values []float64, err error) {
	if s.name != ours {
		return slices.Repeat([]float64{math.NaN()}, len(libraryRows)), nil
	}
	root, err := repository(ctx)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(b.bin, "bench-library")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./controlplane")
	compile.Dir, compile.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the benchmarks of controlplane: %w\n%s", err, text)
	}
	for _, benchmark := range libraryBenchmarks {
		text, err := output(ctx, filepath.Join(root, "controlplane"), program, "-test.run=^$", "-test.benchtime=1x", "-test.bench=^"+benchmark.name+"$")
		if err != nil {
			return nil, err
		}
		for _, unit := range benchmark.units {
			value, err := reported(text, unit)
			if err != nil {
				return nil, fmt.Errorf("read what %s reports: %w", benchmark.name, err)
			}
			values = append(values, value)
		}
	}
	return values, nil
}

// reported returns the value with the unit in the output of a benchmark.
func reported(text, unit string) (float64, error) {
	fields := strings.Fields(text)
	i := slices.Index(fields, unit)
	if i < 1 {
		return 0, fmt.Errorf("no value in %s: %s", unit, text)
	}
	return strconv.ParseFloat(fields[i-1], 64)
}
