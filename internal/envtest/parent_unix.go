//go:build !windows

package envtest

import "os"

// watchParent returns a function that reports whether the parent process has ended:
// another process is the parent then.
func watchParent() (ended func() bool, release func() error, err error) {
	parent := os.Getppid()
	return func() bool { return os.Getppid() != parent }, func() error { return nil }, nil
}
