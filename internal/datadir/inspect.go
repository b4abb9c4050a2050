package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Hold locks a directory that a server has used, without changing it. The error is
// ErrLocked if another process holds it. The caller calls release.
func Hold(path string) (release func() error, err error) {
	lock, err := TryLock(filepath.Join(path, "lock"))
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("%w: %s is held by %s", ErrLocked, path, holder(path))
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data directory %s: %w", path, err)
	}
	return lock.Close, nil
}

// SwapInterrupted reports whether an exchange of the directory's content was interrupted,
// see [Dir.Swap].
func SwapInterrupted(path string) bool {
	_, err := os.Lstat(filepath.Join(path, swapFile))
	return err == nil
}
