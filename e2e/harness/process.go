package harness

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// Process is a program beside the server: an etcd, a webhook, a controller.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	log    lockedBuffer
	exited chan struct{}
}

// StartProcess starts a command, in a directory of its own unless it has one, and ends it
// with the test. A test that has failed logs the end of what the command has written.
func StartProcess(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, exited: make(chan struct{})}
	if cmd.Dir == "" {
		cmd.Dir = t.TempDir()
	}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	go func() {
		_ = cmd.Wait() // how it has ended is in the state of the command
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Stop(os.Kill)
		if t.Failed() {
			log := p.Log()
			t.Logf("the end of the log of %s:\n%s", cmd.Path, log[max(0, len(log)-4000):])
		}
	})
	return p
}

// Log is what the process has written so far.
func (p *Process) Log() string { return p.log.String() }

// Stop sends a signal to the process, if it runs, waits until it has ended, and returns its
// exit code: -1 if a signal has ended it.
func (p *Process) Stop(signal os.Signal) int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	default:
	}
	_ = p.cmd.Process.Signal(signal) // it may have ended
	select {
	case <-p.exited:
	case <-time.After(Patience):
		p.t.Errorf("%s did not end", p.cmd.Path)
		_ = p.cmd.Process.Kill() // the test has failed already
		<-p.exited
	}
	return p.cmd.ProcessState.ExitCode()
}
