package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ErrNotOurs means that a directory is not a data directory of this program.
var ErrNotOurs = errors.New("not a data directory of kube-hyper-mini")

// Remove deletes a data directory with everything in it. It refuses one that
// is in use (ErrLocked), and one without a lock file and a readable version
// stamp (ErrNotOurs): whoever mistypes a path must not lose a home directory.
// Lock and stamp go last, so that a removal that was cut short can be repeated.
// The directory itself stays where this user may not remove it, as
// below a service's state directory or where a volume is mounted.
func Remove(path string) error {
	if err := Removable(path); err != nil {
		return err
	}
	lockFile := filepath.Join(path, "lock")
	lock, err := tryLock(lockFile)
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("%w: %s is held by %s; stop it first", ErrLocked, path, holder(path))
	}
	if err != nil {
		return fmt.Errorf("lock the data directory %s: %w", path, err)
	}
	err = removeContent(path)
	if err = errors.Join(err, lock.Close()); err != nil {
		return fmt.Errorf("remove the data directory %s: %w", path, err)
	}
	if err := errors.Join(os.Remove(lockFile), os.Remove(filepath.Join(path, "version.json"))); err != nil {
		return fmt.Errorf("remove the data directory %s: %w", path, err)
	}
	err = os.Remove(path)
	if err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("remove the data directory %s: %w", path, err)
	}
	return nil
}

// Removable says whether Remove would accept the directory if it is not in
// use: nil, ErrNotOurs with the reason, or os.ErrNotExist.
func Removable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at the data directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is %w: it is not a directory", path, ErrNotOurs)
	}
	if info, err := os.Lstat(filepath.Join(path, "lock")); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is %w: it has no lock file", path, ErrNotOurs)
	}
	stamp, err := ReadStamp(path)
	if err != nil {
		return fmt.Errorf("%s is %w: %w", path, ErrNotOurs, err)
	}
	if stamp == nil {
		return fmt.Errorf("%s is %w: it has no version.json, which a server writes once it has been ready", path, ErrNotOurs)
	}
	return nil
}

// removeContent removes all but the lock and the stamp.
func removeContent(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if slices.Contains([]string{"lock", "version.json"}, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(path, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
