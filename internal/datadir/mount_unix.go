//go:build !windows

package datadir

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// onOtherDevice reports whether the entry of the directory is on another file system.
func onOtherDevice(dir, entry string) (bool, error) {
	outside, err := os.Stat(dir) // it may be a link
	inside, entryErr := os.Lstat(entry)
	if err := errors.Join(err, entryErr); err != nil {
		return false, fmt.Errorf("look for a mount: %w", err)
	}
	a, known := outside.Sys().(*syscall.Stat_t)
	b, alsoKnown := inside.Sys().(*syscall.Stat_t)
	return known && alsoKnown && a.Dev != b.Dev, nil
}
