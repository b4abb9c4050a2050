package datadir

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock opens the file, makes it where it does not exist, and locks it until
// it is closed. It returns ErrLocked when another process holds it.
//
// etcd's fileutil is not used: on Windows it creates no file and reports success
// for a lock that another process holds. The locked byte lies far behind the
// content, because other processes cannot read a locked byte.
func TryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
