package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ErrNotDataDir means that a directory is not a data directory of this program.
var ErrNotDataDir = errors.New("not a data directory of kube-hyper-mini")

// Removal lists what [Remove] deletes and what it keeps. Paths are relative to the data
// directory; directories end with a slash.
type Removal struct {
	// Removed belongs to the layout of a data directory.
	Removed []string
	// Backups are backups that stay.
	Backups []string
	// Others are files that no server or command has made; they are kept.
	Others []string
}

// Remove deletes the files of the layout from a data directory, and the directory if it
// is then empty. It refuses a directory that is in use (ErrLocked), and one that is not
// [Removable] (ErrNotDataDir), such as a mistyped path. It calls confirm with what it will
// do, and removes nothing if that returns an error. It deletes the lock and the stamp
// last, so that an interrupted removal can be repeated. It keeps the directory itself
// if this user may not remove it, for example below a service's state directory or at
// the mount point of a volume.
func Remove(path string, withBackups bool, confirm func(*Removal) error) (*Removal, error) {
	if err := Removable(path); err != nil {
		return nil, err
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock}
	found, err := survey(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the data directory: %w", err), d.Close())
	}
	plan := &found
	if withBackups {
		plan.Removed, plan.Backups = append(plan.Removed, plan.Backups...), nil
		slices.Sort(plan.Removed)
	}
	if err := confirm(plan); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	// The lock is held to the end: a server that starts meanwhile must not lose its files.
	if err = removeAll(path, plan.Removed); err == nil {
		err = d.closeAndRemove("lock")
	} else {
		err = errors.Join(err, d.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("remove the data directory %s: %w", path, err)
	}
	if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
		return plan, nil
	}
	err = os.Remove(path)
	if err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, syscall.EBUSY) {
		return nil, fmt.Errorf("remove the data directory %s: %w", path, err)
	}
	return plan, nil
}

func removeIfExists(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Removable reports whether Remove would accept the directory if it is not in
// use: nil, ErrNotDataDir with the reason, os.ErrNotExist, or os.ErrPermission with the
// remedy. A directory without a stamp, which a first start that was cut short leaves, is
// accepted if everything in it belongs to the layout.
func Removable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return notReadable(err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is %w: it is not a directory", path, ErrNotDataDir)
	}
	info, err = os.Lstat(filepath.Join(path, "lock"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return notReadable(err)
	}
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is %w: it has no lock file", path, ErrNotDataDir)
	}
	stamp, err := ReadStamp(path)
	if errors.Is(err, fs.ErrPermission) {
		return notReadable(err)
	}
	if err != nil {
		return fmt.Errorf("%s is %w: %w", path, ErrNotDataDir, err)
	}
	if stamp != nil {
		return nil
	}
	found, err := survey(path)
	if err != nil {
		return notReadable(err)
	}
	if len(found.Others) > 0 {
		return fmt.Errorf("%s is %w: it has no version.json, and other files (%s)", path, ErrNotDataDir,
			JoinFirst(found.Others))
	}
	return nil
}

// notReadable adds the remedy where this user may not read the data directory.
func notReadable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("read the data directory: %w; run this command as the user that runs the server, or as root", err)
	}
	return fmt.Errorf("read the data directory: %w", err)
}

// removeAll removes the named entries except the lock, the last one first; at the end the stamp
// and the mark of an ephemeral directory, if nothing else is left. Mount points stay, empty.
func removeAll(path string, names []string) error {
	last := []string{"version.json", ephemeralMark}
	var failed error
	for _, name := range slices.Backward(names) {
		if name == "lock" || slices.Contains(last, name) {
			continue
		}
		name = filepath.Join(path, filepath.FromSlash(name))
		if err := os.RemoveAll(name); err != nil {
			if left, readErr := os.ReadDir(name); readErr != nil || len(left) > 0 {
				failed = errors.Join(failed, err)
			}
		}
	}
	if failed != nil {
		return failed
	}
	for _, name := range last {
		if err := removeIfExists(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}
