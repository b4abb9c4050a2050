package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// OnSameDisk reports whether the path, or the directory that it will be made in, is on the
// disk of dir. It reports false where that cannot be found out.
func OnSameDisk(dir, path string) bool {
	for {
		info, err := os.Stat(path)
		if err == nil {
			other, err := os.Stat(dir)
			return err == nil && sameDevice(info, other)
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return false
		}
		path = parent
	}
}
