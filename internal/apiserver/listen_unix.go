//go:build !windows

package apiserver

import (
	"math"

	"golang.org/x/sys/unix"
)

// fileLimit is how many files the process may have open, if there is a limit.
// The Go runtime has raised it as far as it may.
func fileLimit() (int, bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return 0, false
	}
	return int(limit.Cur), true
}
