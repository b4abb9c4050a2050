package maintenance

import "golang.org/x/sys/windows"

// diskSpace is what this user may still write, and the size of the disk.
func diskSpace(dir string) (free, total int64, err error) {
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
