package envtest

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// watchParent returns a function that reports whether the parent process has ended. A
// parent that had ended before is not seen, as on other systems.
func watchParent() (ended func() bool, release func() error, err error) {
	parent, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(os.Getppid()))
	if errors.Is(err, windows.ERROR_INVALID_PARAMETER) { // no such process
		return func() bool { return false }, func() error { return nil }, nil
	}
	if err != nil {
		return nil, nil, err
	}
	ended = func() bool {
		event, err := windows.WaitForSingleObject(parent, 0)
		return err == nil && event == windows.WAIT_OBJECT_0
	}
	return ended, func() error { return windows.CloseHandle(parent) }, nil
}
