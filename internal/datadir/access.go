package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckAccess returns an error with the remedy if this user may not use a file of the
// directory, for example after another user has run a command on it. The packages that
// use the files report other errors.
func CheckAccess(dir string) error {
	for name, flag := range map[string]int{"version.json": os.O_RDONLY, "pki": os.O_RDONLY, "encryption": os.O_RDONLY, "etcd": os.O_RDWR} {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				err = access(path, flag)
			}
			if errors.Is(err, fs.ErrPermission) {
				return err
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("the data directory %s has files that this user may not use: %w; give them to the user that runs the server (chown -R USER %s)", dir, err, dir)
		}
	}
	return nil
}

func access(path string, flag int) error {
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return file.Close()
}
