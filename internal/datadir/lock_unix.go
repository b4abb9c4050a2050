//go:build !windows

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// TryLock opens the file, makes it where it does not exist, and locks it until
// it is closed. It returns ErrLocked when another process holds it. It follows no link: in
// another user's directory that would have root write to a file of that user's choice.
func TryLock(path string) (*os.File, error) {
	for {
		lock, err := fileutil.TryLockFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		switch {
		case errors.Is(err, fileutil.ErrLocked):
			return nil, ErrLocked
		case errors.Is(err, syscall.ELOOP):
			return nil, fmt.Errorf("%s is a symbolic link: remove it", path)
		case err != nil:
			return nil, err
		}
		there, err := isAt(path, lock.File)
		if err == nil && there {
			return lock.File, nil
		}
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
	}
}

// isAt reports whether the path is that of the open file: the process that had locked it
// may have removed it before this one did.
func isAt(path string, file *os.File) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	found, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, found), err
}
