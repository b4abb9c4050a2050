//go:build !windows

package backup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// adopt gives what root has restored to the user whose data directory it is:
// the service that uses it is another user.
func adopt(incoming, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("find the owner of %s: %w", dir, err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("find the owner of %s: the system does not say", dir)
	}
	return filepath.WalkDir(incoming, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}
