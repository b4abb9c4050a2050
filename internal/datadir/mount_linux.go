package datadir

import "golang.org/x/sys/unix"

// isMountPoint reports whether something is mounted at the entry of the directory, which
// can also be a part of the same file system.
func isMountPoint(dir, entry string) (bool, error) {
	var info unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, entry, unix.AT_SYMLINK_NOFOLLOW, 0, &info)
	if err == nil && info.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return info.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	return onOtherDevice(dir, entry) // before Linux 5.8
}
