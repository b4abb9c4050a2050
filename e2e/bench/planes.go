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
	// planesAtOnce is how many servers for tests run side by side.
	planesAtOnce = 50
	// planesInTurn is how many start and stop one after the other, for medians.
	planesInTurn = 9
)

// planeRows are of `kube-hyper-mini run`; the other side has nothing of the kind.
var planeRows = []row{
	{name: "run: first start to ready", unit: inSeconds}, // it may read the program from the disk
	{name: "run: cold start to ready", unit: inSeconds, limit: 0.25},
	{name: "run: processor time of a cold start", unit: inSeconds},
	{name: "run: SIGTERM to the end of the process", unit: inSeconds, limit: 0.1},
	{name: fmt.Sprintf("run: %d at once, proportional memory of each with its guard", planesAtOnce), unit: inBytes, limit: 80e6},
	{name: fmt.Sprintf("run: %d at once, until all are ready", planesAtOnce), unit: inSeconds},
}

// plane is a `run` without a command.
type plane struct {
	cmd *exec.Cmd
	in  io.Closer
}

// startPlane returns when the plane is ready.
func (b *bench) startPlane(ctx context.Context, dir string, args ...string) (*plane, error) {
	cmd := exec.CommandContext(ctx, b.programs.ours, append([]string{"run", "--until-eof"}, args...)...)
	cmd.Env = planeEnvironment(dir)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		return nil, fmt.Errorf("start a plane: %w", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("start a plane: it is not ready: %w", err), in.Close(), cmd.Wait())
	}
	return &plane{cmd, in}, nil
}

// planeEnvironment has temporary files and caches below dir.
func planeEnvironment(dir string) []string {
	return append(os.Environ(), "TMPDIR="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
}

// stop returns when the process has ended.
func (p *plane) stop() error {
	err := errors.Join(p.cmd.Process.Signal(syscall.SIGTERM), p.cmd.Wait())
	_ = p.in.Close() // Wait has closed it
	return err
}

// measurePlanes starts and stops planes one after the other, and then many at once.
func measurePlanes(ctx context.Context, b *bench, s side) (values []float64, err error) {
	if s.name != ours {
		return slices.Repeat([]float64{math.NaN()}, len(planeRows)), nil
	}
	dir, err := b.newDir(s.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	var starts, ends, processor []float64
	for range 1 + planesInTurn {
		start, cpu, end, err := b.onePlane(ctx, dir)
		if err != nil {
			return nil, err
		}
		starts, processor, ends = append(starts, start), append(processor, cpu), append(ends, end)
	}
	values = []float64{starts[0], median(starts[1:]), median(processor[1:]), median(ends[1:])}
	memory, ready, err := b.manyPlanes(ctx, dir)
	return append(values, memory, ready), err
}

// onePlane starts one plane and stops it, and returns how long that took and the processor
// time that the start took, in seconds.
func (b *bench) onePlane(ctx context.Context, dir string) (start, processor, end float64, err error) {
	began := time.Now()
	p, err := b.startPlane(ctx, dir)
	if err != nil {
		return 0, 0, 0, err
	}
	start = since(began)
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
	if err == nil {
		processor, err = cpuSeconds(string(stat))
	}
	if err != nil {
		err = fmt.Errorf("read the processor time of a plane: %w", err)
	}
	began = time.Now()
	err = errors.Join(err, p.stop())
	return start, processor, since(began), err
}

// manyPlanes returns the memory of each plane when all have come to rest.
func (b *bench) manyPlanes(ctx context.Context, dir string) (memory, ready float64, err error) {
	began := time.Now()
	type result struct {
		plane *plane
		err   error
	}
	results := make(chan result)
	for range planesAtOnce {
		go func() {
			p, err := b.startPlane(ctx, dir)
			results <- result{p, err}
		}()
	}
	var planes []*plane
	for range planesAtOnce {
		r := <-results
		err = errors.Join(err, r.err)
		if r.plane != nil {
			planes = append(planes, r.plane)
		}
	}
	ready = since(began)
	if err == nil {
		err = pause(ctx, b.settle)
	}
	for _, p := range planes {
		used, memoryErr := proportional(p.cmd.Process.Pid)
		memory += used / planesAtOnce
		err = errors.Join(err, memoryErr)
	}
	for _, p := range planes {
		err = errors.Join(err, p.stop())
	}
	return memory, ready, err
}

// proportional is the proportional set size of a process and its children, in bytes.
func proportional(pid int) (float64, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	memory, err := procFields(filepath.Join(proc, "smaps_rollup"))
	if err != nil {
		return 0, fmt.Errorf("read the memory of a plane: %w", err)
	}
	sum := memory["Pss"] * 1024
	threads, err := filepath.Glob(filepath.Join(proc, "task", "*", "children"))
	if err != nil {
		return 0, fmt.Errorf("list the children of a plane: %w", err)
	}
	for _, file := range threads {
		list, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, child := range strings.Fields(string(list)) {
			number, err := strconv.Atoi(child)
			if err != nil {
				return 0, fmt.Errorf("read the children of a plane: %w", err)
			}
			used, err := proportional(number)
			if err != nil {
				return 0, err
			}
			sum += used
		}
	}
	return sum, nil
}
