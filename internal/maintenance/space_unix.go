//go:build !windows

package maintenance

import "golang.org/x/sys/unix"

// diskSpace is what this user may still write, and the size of the disk.
func diskSpace(dir string) (free, total int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), int64(fs.Blocks) * int64(fs.Bsize), nil
}
