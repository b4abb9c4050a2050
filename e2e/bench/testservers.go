package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// serversAtOnce is how many servers for tests run side by side.
	serversAtOnce = 50
	// serversInTurn is how many start and stop one after the other, for medians.
	serversInTurn = 9
)

// testServerRows are of `kube-hyper-mini run`; the other side has nothing of the kind.
var testServerRows = []row{
	{name: "run: first start to ready", unit: inSeconds}, // it may read the program from the disk
	{name: "run: cold start to ready", unit: inSeconds, limit: 0.25},
	{name: "run: processor time of a cold start, with its guard", unit: inSeconds},
	{name: "run: SIGTERM to the end of the process", unit: inSeconds, limit: 0.1},
	{name: "run: processor time of a start and a stop", unit: inSeconds},
	{name: fmt.Sprintf("run: %d at once, proportional memory of each with its guard", serversAtOnce), unit: inBytes, limit: 80e6},
	{name: fmt.Sprintf("run: %d at once, until all are ready", serversAtOnce), unit: inSeconds},
	{name: fmt.Sprintf("run: %d at once, database and log of each on disk", serversAtOnce), unit: inBytes},
}

// testServer is a `run` without a command.
type testServer struct {
	cmd *exec.Cmd
	in  io.Closer
}

// startTestServer returns when the server is ready.
func (b *bench) startTestServer(ctx context.Context, dir string, args ...string) (*testServer, error) {
	cmd := exec.CommandContext(ctx, b.programs.ours, append([]string{"run", "--until-eof"}, args...)...)
	cmd.Env = testServerEnvironment(dir)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return nil, fmt.Errorf("start a server for tests: %w", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("start a server for tests: it is not ready: %w", err), in.Close(), cmd.Wait())
	}
	return &testServer{cmd, in}, nil
}

// testServerEnvironment has temporary files and caches below dir.
func testServerEnvironment(dir string) []string {
	return append(os.Environ(), "TMPDIR="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
}

// stop returns when the process has ended.
func (p *testServer) stop() error {
	err := errors.Join(p.cmd.Process.Signal(syscall.SIGTERM), p.cmd.Wait())
	_ = p.in.Close() // Wait has closed it
	return err
}

// measureTestServers starts and stops servers for tests one after the other, and then many at once.
func measureTestServers(ctx context.Context, b *bench, s side) (values []float64, err error) {
	if s.name != ours {
		return slices.Repeat([]float64{math.NaN()}, len(testServerRows)), nil
	}
	dir, err := b.newDir(s.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	var runs [][]float64
	for range 1 + serversInTurn {
		run, err := b.oneTestServer(ctx, dir)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	values = []float64{runs[0][0]}
	for i := range runs[0] {
		values = append(values, median(column(runs[1:], i)))
	}
	many, err := b.manyTestServers(ctx, dir)
	return append(values, many...), err
}

// oneTestServer starts one server and stops it, and returns how long that took and the
// processor time of the start and of both, in seconds.
func (b *bench) oneTestServer(ctx context.Context, dir string) ([]float64, error) {
	began := time.Now()
	p, err := b.startTestServer(ctx, dir)
	if err != nil {
		return nil, err
	}
	start := since(began)
	processor, err := processorOf(p.cmd.Process.Pid)
	began = time.Now()
	if err := errors.Join(err, p.stop()); err != nil {
		return nil, err
	}
	state := p.cmd.ProcessState
	return []float64{start, processor, since(began), (state.UserTime() + state.SystemTime()).Seconds()}, nil
}

// manyTestServers returns the memory of each server when all have come to rest, the time
// until all were ready, and the size of each database.
func (b *bench) manyTestServers(ctx context.Context, dir string) (values []float64, err error) {
	began := time.Now()
	type result struct {
		server *testServer
		err    error
	}
	results := make(chan result)
	for range serversAtOnce {
		go func() {
			p, err := b.startTestServer(ctx, dir)
			results <- result{p, err}
		}()
	}
	var servers []*testServer
	for range serversAtOnce {
		r := <-results
		err = errors.Join(err, r.err)
		if r.server != nil {
			servers = append(servers, r.server)
		}
	}
	memory, ready := 0.0, since(began)
	if err == nil {
		err = pause(ctx, b.settle)
	}
	for _, p := range servers {
		used, memoryErr := proportional(p.cmd.Process.Pid)
		memory += used / serversAtOnce
		err = errors.Join(err, memoryErr)
	}
	size, sizeErr := databaseSize(dir)
	err = errors.Join(err, sizeErr)
	for _, p := range servers {
		err = errors.Join(err, p.stop())
	}
	return []float64{memory, ready, size / serversAtOnce}, err
}

// processorOf is the processor time of a process and its children, in seconds.
func processorOf(pid int) (float64, error) {
	return sumOfFamily(pid, func(proc string) (float64, error) {
		stat, err := os.ReadFile(filepath.Join(proc, "stat"))
		if err != nil {
			return 0, err
		}
		return cpuSeconds(string(stat))
	})
}

// proportional is the proportional set size of a process and its children, in bytes.
func proportional(pid int) (float64, error) {
	return sumOfFamily(pid, func(proc string) (float64, error) {
		memory, err := procFields(filepath.Join(proc, "smaps_rollup"))
		return memory["Pss"] * 1024, err
	})
}

// sumOfFamily adds up what a process and its children take. read gets the directory of a
// process in /proc.
func sumOfFamily(pid int, read func(proc string) (float64, error)) (float64, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	sum, err := read(proc)
	if err != nil {
		return 0, fmt.Errorf("read what a server for tests takes: %w", err)
	}
	threads, err := filepath.Glob(filepath.Join(proc, "task", "*", "children"))
	if err != nil {
		return 0, fmt.Errorf("list the children of a server for tests: %w", err)
	}
	for _, file := range threads {
		list, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, child := range strings.Fields(string(list)) {
			number, err := strconv.Atoi(child)
			if err != nil {
				return 0, fmt.Errorf("read the children of a server for tests: %w", err)
			}
			taken, err := sumOfFamily(number, read)
			if err != nil {
				return 0, err
			}
			sum += taken
		}
	}
	return sum, nil
}
