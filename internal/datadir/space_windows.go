package datadir

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

// sameDevice is not known here.
func sameDevice(fs.FileInfo, fs.FileInfo) bool { return false }

// allocated returns the size of a file: what it takes on the disk is not known here.
func allocated(info fs.FileInfo) int64 { return info.Size() }

// DiskSpace returns the space that this user can use on the directory's disk, and the
// size of that disk, in bytes.
func DiskSpace(dir string) (free, total int64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var available, size, all uint64
	if err := windows.GetDiskFreeSpaceEx(path, &available, &size, &all); err != nil {
		return 0, 0, err
	}
	return int64(available), int64(size), nil
}
