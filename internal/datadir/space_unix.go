//go:build !windows

package datadir

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// sameDevice reports whether two files are on one disk.
func sameDevice(a, b fs.FileInfo) bool {
	one, ok := a.Sys().(*syscall.Stat_t)
	other, also := b.Sys().(*syscall.Stat_t)
	return ok && also && one.Dev == other.Dev
}

// allocated returns the room that a file takes on the disk, in bytes.
func allocated(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512 // the unit of st_blocks, whatever the file system has
	}
	return info.Size()
}

// DiskSpace returns the space that this user can use on the directory's disk, and the
// size of that disk, in bytes.
func DiskSpace(dir string) (free, total int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), int64(fs.Blocks) * int64(fs.Bsize), nil
}
