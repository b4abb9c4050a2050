//go:build !windows

package apiserver

import (
	"math"

	"golang.org/x/sys/unix"
)

// fileLimit returns the limit of open files of the process, if there is one. The Go
// runtime has raised it to the maximum.
func fileLimit() (int, bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return 0, false
	}
	return int(limit.Cur), true
}
