package envtest

import (
	"os"

	"golang.org/x/sys/windows"
)

// watchParent returns a function that reports whether the parent process has ended.
func watchParent() (ended func() bool, release func() error, err error) {
	parent, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(os.Getppid()))
	if err != nil {
		return nil, nil, err
	}
	ended = func() bool {
		event, err := windows.WaitForSingleObject(parent, 0)
		return err == nil && event == windows.WAIT_OBJECT_0
	}
	return ended, func() error { return windows.CloseHandle(parent) }, nil
}
