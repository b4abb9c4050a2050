package datadir

import (
	"errors"
	"fmt"
	"io/fs"
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
