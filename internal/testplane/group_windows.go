package testplane

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// detached starts a process without the console of the caller, whose Ctrl-C would
// end it.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// ignoreSignals keeps signals from ending the guard, which ends with its input.
func ignoreSignals() { signal.Ignore(os.Interrupt) }

// endGroup does nothing: Windows has no process groups of that kind.
func endGroup(int, time.Duration) {}
