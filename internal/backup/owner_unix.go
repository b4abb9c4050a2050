//go:build !windows

package backup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// giveToOwner changes the owner of files that root has restored to the owner of the data
// directory: the service runs as another user.
func giveToOwner(incoming, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("find the owner of %s: %w", dir, err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("find the owner of %s: not supported on this system", dir)
	}
	return filepath.WalkDir(incoming, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}
