//go:build !windows

package datadir

import "golang.org/x/sys/unix"

// DiskSpace returns the space that this user can use on the directory's disk, and the
// size of that disk, in bytes.
func DiskSpace(dir string) (free, total int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), int64(fs.Blocks) * int64(fs.Bsize), nil
}
