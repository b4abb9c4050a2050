package early

import (
	"syscall"
	"unsafe"
)

// ignoreSignals keeps the guard alive when its container or its service is stopped: it
// ends with its input. Package os/signal cannot be imported here.
func ignoreSignals() {
	const ignore = 1                  // SIG_IGN
	action := [8]uintptr{ignore}      // the kernel's struct sigaction begins with the handler
	const sizeOfSet = uintptr(64 / 8) // of the signals' set in it
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		// An error leaves the default: the signal ends the guard.
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&action)), 0, sizeOfSet, 0, 0)
	}
}
