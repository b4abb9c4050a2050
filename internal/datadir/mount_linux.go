package datadir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// isMountPoint reports whether something is mounted at the path, which can also be a part
// of the same file system. Before Linux 5.8 it reports false.
func isMountPoint(path string) (bool, error) {
	var info unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &info); err != nil {
		return false, fmt.Errorf("look for a mount at %s: %w", path, err)
	}
	return info.Attributes&info.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}
