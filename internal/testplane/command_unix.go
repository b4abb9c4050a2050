//go:build !windows

package testplane

import (
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stdin is the file descriptor of the terminal, if there is one.
const stdin = 0

// process leads a process group.
type process struct {
	pid int
	// foreground means that the group has the terminal.
	foreground bool
	reaped     atomic.Bool
}

// startProcess starts the program as the leader of a process group, which gets the terminal
// if this process has it.
func startProcess(options CommandOptions) (*process, error) {
	system := &syscall.SysProcAttr{Setpgid: true, Foreground: ownsTerminal(), Ctty: stdin}
	if system.Foreground {
		signal.Ignore(syscall.SIGTTOU) // otherwise taking back the terminal would stop this process
	}
	started, err := os.StartProcess(options.Path, options.Args, &os.ProcAttr{
		Env: options.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: system,
	})
	if err != nil {
		return nil, err
	}
	p := &process{pid: started.Pid, foreground: system.Foreground}
	if err := errors.Join(started.Release(), options.Announce(p.pid)); err != nil { // wait uses the pid
		p.kill()
		p.wait()
		return nil, err
	}
	return p, nil
}

// ownsTerminal reports whether standard input is a terminal whose foreground process
// group is that of this process.
func ownsTerminal() bool {
	group, err := unix.IoctlGetInt(stdin, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// giveTerminal makes a process group the terminal's foreground process group.
func giveTerminal(group int) { _ = unix.IoctlSetPointerInt(stdin, unix.TIOCSPGRP, group) }

// wait returns the exit code. A program that is stopped at a terminal (Ctrl-Z)
// stops this process too, so that the shell gets the terminal.
func (p *process) wait() int {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err == nil && status.Stopped():
			p.stopped()
		default:
			p.reaped.Store(true)
			if p.foreground {
				giveTerminal(unix.Getpgrp())
			}
			return exitCode(status, err)
		}
	}
}

// exitCode returns the code that a shell would return.
func exitCode(status syscall.WaitStatus, err error) int {
	switch {
	case err != nil: // another part of this process has taken the status
		return 1
	case status.Signaled():
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// stopped returns when the shell continues this process.
func (p *process) stopped() {
	if !p.foreground {
		return
	}
	giveTerminal(unix.Getpgrp())
	_ = syscall.Kill(unix.Getpid(), syscall.SIGSTOP)
	if ownsTerminal() { // continued by fg, not by bg
		giveTerminal(p.pid)
	}
	_ = syscall.Kill(-p.pid, syscall.SIGCONT)
}

func (p *process) signal(signal os.Signal) {
	if number, ok := signal.(syscall.Signal); ok {
		_ = syscall.Kill(-p.pid, number) // it may have ended
	}
}

func (p *process) kill() { killGroup(p.pid) }

// end ends the remaining processes of the group.
func (p *process) end(grace time.Duration) {
	if p.reaped.Load() && errors.Is(syscall.Kill(-p.pid, 0), syscall.ESRCH) {
		return
	}
	endGroup(p.pid, grace)
}
