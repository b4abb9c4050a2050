//go:build !windows

package datadir

import (
	"errors"
	"os"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// TryLock opens the file, makes it where it does not exist, and locks it until
// it is closed. It returns ErrLocked when another process holds it.
func TryLock(path string) (*os.File, error) {
	lock, err := fileutil.TryLockFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return lock.File, nil
}
