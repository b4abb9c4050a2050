package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// LooseMode is the mode of a file or directory that other users may use.
type LooseMode struct {
	Path string
	// Mode is what it has, Wanted what it should have.
	Mode, Wanted fs.FileMode
}

// CheckAccess returns an error with the remedy if this user may not use a file of the
// directory, for example after another user has run a command on it, or on a file system that
// is read-only. The packages that use the files report other errors.
func CheckAccess(dir string) error {
	for name, flag := range map[string]int{"version.json": os.O_RDONLY, "pki": os.O_RDONLY, "encryption": os.O_RDONLY,
		"etcd": os.O_RDWR, "lock": os.O_RDWR} {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				var file *os.File
				if file, err = os.OpenFile(path, flag, 0); err == nil {
					err = file.Close()
				}
			}
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
				return err
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("the data directory %s has files that this user may not use: %w; give them to the user "+
				"that runs the server (chown -R USER %s)", dir, err, dir)
		}
	}
	return nil
}

// StatFile describes the file that path leads to: a kubelet changes the content behind the
// links of a Secret, and not the links. It describes the link itself if that leads nowhere.
// The error is that of [os.Lstat] or [os.Stat].
func StatFile(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Lstat(path)
	}
	return info, err
}
