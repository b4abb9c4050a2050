package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a process has to end after a signal. Upstream's API
// server waits up to 60 s for its watches.
const patience = 2 * time.Minute

// process is a server that the benchmark has started.
type process struct {
	name   string
	log    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// startProcess runs a program with its output in a file of dir.
func startProcess(dir, name, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // how it ended is in ProcessState
		_ = log.Close()  // the child has written through its own descriptor
	}()
	return p, nil
}

// running is nil until the process has ended, and then an error with the end of its log.
func (p *process) running() error {
	select {
	case <-p.exited:
		text, err := os.ReadFile(p.log)
		if err != nil {
			return fmt.Errorf("%s ended: %s", p.name, p.cmd.ProcessState)
		}
		return fmt.Errorf("%s ended: %s; its log ends with:\n%s", p.name, p.cmd.ProcessState, text[max(0, len(text)-2000):])
	default:
		return nil
	}
}

// ask sends the signal for an orderly stop.
func (p *process) ask() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // one that has ended needs no signal
}

// wait returns when the process has ended. One that takes too long is killed,
// which is an error.
func (p *process) wait() error {
	select {
	case <-p.exited:
		return nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill() // one that has ended by now needs no signal
		<-p.exited
		return fmt.Errorf("%s did not end within %s of its signal", p.name, patience)
	}
}

// usage is what a process takes from the machine.
type usage struct {
	anonymous, file float64 // bytes in memory
	cpu             float64 // seconds since its start
	written         float64 // bytes handed to the disk since its start
}

func (u usage) plus(v usage) usage {
	return usage{u.anonymous + v.anonymous, u.file + v.file, u.cpu + v.cpu, u.written + v.written}
}

// ticks is USER_HZ, which Linux keeps at 100 for what it tells programs.
const ticks = 100

func (p *process) usage() (usage, error) {
	var u usage
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	memory, err := procFields(filepath.Join(proc, "smaps_rollup"))
	if err != nil {
		return u, fmt.Errorf("read the memory of %s: %w", p.name, err)
	}
	u.anonymous = memory["Anonymous"] * 1024
	u.file = memory["Rss"]*1024 - u.anonymous
	io, err := procFields(filepath.Join(proc, "io"))
	if err != nil {
		return u, fmt.Errorf("read the disk writes of %s: %w", p.name, err)
	}
	u.written = io["write_bytes"]
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return u, fmt.Errorf("read the CPU time of %s: %w", p.name, err)
	}
	if u.cpu, err = cpuSeconds(string(stat)); err != nil {
		return u, fmt.Errorf("read the CPU time of %s: %w", p.name, err)
	}
	return u, nil
}

// resetPeak begins a new measurement of the peak.
func (p *process) resetPeak() error {
	const peak = "5" // see clear_refs in proc(5)
	if err := os.WriteFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "clear_refs"), []byte(peak), 0); err != nil {
		return fmt.Errorf("reset the highest memory of %s: %w", p.name, err)
	}
	return nil
}

// peak is the highest memory since resetPeak, in bytes, without the pages of files that are
// resident now: the kernel takes those back when it needs them.
func (p *process) peak() (float64, error) {
	status, err := procFields(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("read the highest memory of %s: %w", p.name, err)
	}
	return (status["VmHWM"] - status["RssFile"]) * 1024, nil
}

// procFields reads lines of the form "Name: 123 kB".
func procFields(path string) (map[string]float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fields := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if !ok || len(words) == 0 {
			continue
		}
		if value, err := strconv.ParseFloat(words[0], 64); err == nil {
			fields[name] = value
		}
	}
	return fields, nil
}

// cpuSeconds reads user and system time from the text of /proc/PID/stat. The
// program's name in it may have blanks and parentheses.
func cpuSeconds(stat string) (float64, error) {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q has %d fields after the name", stat, len(fields))
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, fmt.Errorf("user time: %w", err)
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	if err != nil {
		return 0, fmt.Errorf("system time: %w", err)
	}
	return (user + system) / ticks, nil
}
