//go:build !windows

package testplane

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// detached puts a process into a session of its own, where neither Ctrl-C nor a
// signal to the caller's process group reaches it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// ignoreSignals keeps signals from ending the guard, which ends with its input.
func ignoreSignals() {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
}

// groupPoll is the time between two checks whether a group has ended.
const groupPoll = 5 * time.Millisecond

// endGroup sends SIGTERM to a process group, and SIGKILL if processes are left after
// the grace.
func endGroup(group int, grace time.Duration) {
	_ = syscall.Kill(-group, syscall.SIGTERM)
	_ = syscall.Kill(-group, syscall.SIGCONT) // a stopped process gets signals when it continues
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); time.Sleep(groupPoll) {
		if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
			return
		}
	}
	killGroup(group)
}

// killGroup sends SIGKILL to a process group. One that has ended is no error.
func killGroup(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) }
