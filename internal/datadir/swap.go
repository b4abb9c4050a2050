package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// swapFile journals an exchange of the directory's content. The next [Lock]
// finishes an exchange that a crash interrupted.
const swapFile = "swap.json"

// swap is the content of swapFile.
type swap struct {
	// New and Old are directories in the data directory: the new content, and the
	// directory for the previous content.
	New string `json:"new"`
	Old string `json:"old"`
	// Keep are names that stay where they are.
	Keep []string `json:"keep,omitempty"`
	// Moved means that the previous content is in Old.
	Moved bool `json:"moved"`
}

// stays reports whether an entry is not moved to Old.
func (s swap) stays(entry fs.DirEntry) bool {
	return layoutEntryOf(entry) == nil || matches(beforeRestore, entry.Name()) || slices.Contains(
		slices.Concat(s.Keep, []string{"lock", swapFile, s.New, s.Old}), entry.Name())
}

// Lock locks a directory without reading its content, and creates it if it does not
// exist. The result has no Previous. It finishes an interrupted exchange. It refuses a
// directory that no server has used and that has files which are neither of the layout
// nor named (ErrNotDataDir).
func Lock(path string, named ...string) (*Dir, error) {
	if err := refuseOtherFiles(path, named); err != nil {
		return nil, err
	}
	_, err := os.Stat(path)
	made := errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, notWritable(path, err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	heldHere.Store(absolute(path), true)
	d := &Dir{path: path, lock: lock, made: made}
	if err := d.finishSwap(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// heldHere has the directories of the [Dir]s that are not unlocked. The process id in a lock does
// not tell: containers that share a volume have the same one.
var heldHere sync.Map

// absolute returns the path itself where the working directory is unknown.
func absolute(path string) string {
	if found, err := filepath.Abs(path); err == nil {
		return found
	}
	return path
}

// lockDir takes the lock of a directory. The error is ErrLocked if it is taken.
func lockDir(path string) (*os.File, error) {
	lock, err := TryLock(filepath.Join(path, "lock"))
	if _, here := heldHere.Load(absolute(path)); here && errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("%w: another control plane of this process uses %s; stop that first, or choose "+
			"another directory (Options.Dir)", ErrLocked, path)
	}
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("%w: %s is held by %s; stop it first, or choose another directory with --data-dir",
			ErrLocked, path, holder(path))
	}
	if err != nil {
		return nil, notWritable(path, err)
	}
	return lock, nil
}

// lockPoll is the time between two attempts to take a lock.
const lockPoll = 10 * time.Millisecond

// AwaitUnlocked waits until no process uses a directory, which need not exist, or ctx ends
// (ErrLocked): a server that is stopped while etcd opens its data does not wait for etcd.
func AwaitUnlocked(ctx context.Context, path string) (err error) {
	_ = wait.PollUntilContextCancel(ctx, lockPoll, true, func(context.Context) (bool, error) {
		var lock *os.File
		if lock, err = TryLock(filepath.Join(path, "lock")); err == nil {
			err = lock.Close()
		}
		return !errors.Is(err, ErrLocked), nil
	}) // err says what is wrong
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("wait for the end of etcd: %w", err)
	}
	return nil
}

// Hold locks a directory that a server has used, without changing it. The error is
// ErrLocked if another process holds it. The caller calls release.
func Hold(path string) (release func() error, err error) {
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	return lock.Close, nil
}

// SwapInterrupted reports whether an exchange of the directory's content was interrupted,
// see [Dir.Swap].
func SwapInterrupted(path string) bool {
	_, err := os.Lstat(filepath.Join(path, swapFile))
	return err == nil
}

// Swap makes the content of the directory named incoming, which is in d, the content of
// d. It moves the previous content to the new directory named old in d, except the
// names in keep and files that are not of the layout. It only renames: it needs no
// room, and works if the directory itself cannot be renamed, such as a mounted volume.
// After a crash the next Lock finishes it.
func (d *Dir) Swap(incoming, old string, keep ...string) error {
	if _, err := os.Lstat(d.Join(old)); err == nil {
		return fmt.Errorf("exchange the content of %s: %s exists", d.path, d.Join(old))
	}
	if err := d.CheckSwap(incoming, keep...); err != nil {
		return err
	}
	if err := WriteJSON(d.Join(swapFile), swap{New: incoming, Old: old, Keep: keep}); err != nil {
		return err
	}
	return d.finishSwap()
}

// CheckSwap returns an error if [Dir.Swap] would move a mount point, which cannot be
// renamed.
func (d *Dir) CheckSwap(incoming string, keep ...string) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("look for mounts in %s: %w", d.path, err)
	}
	s := swap{New: incoming, Keep: keep}
	for _, entry := range entries {
		if s.stays(entry) {
			continue
		}
		mounted, err := isMountPoint(d.Join(entry.Name()))
		if err != nil {
			return err
		}
		if mounted {
			return fmt.Errorf("%s is a mount point, which cannot be moved: unmount it and try again; then replace "+
				"what is on its volume by what is at %[1]s, and mount it again", d.Join(entry.Name()))
		}
	}
	return nil
}

// finishSwap does the remaining steps of an exchange. Each step can be repeated.
func (d *Dir) finishSwap() error {
	s := swap{}
	found, err := ReadJSON(d.Join(swapFile), &s)
	if err == nil && !found {
		return nil
	}
	if err == nil && (!filepath.IsLocal(s.New) || !filepath.IsLocal(s.Old)) {
		err = fmt.Errorf("it names %q and %q", s.New, s.Old)
	}
	if err != nil {
		return fmt.Errorf("a restore into %s was interrupted and %s cannot be read: %w", d.path, swapFile, err)
	}
	if err := d.finish(s); err != nil {
		return fmt.Errorf("move a restored backup into %s: %w; remove the cause and try again", d.path, err)
	}
	return nil
}

func (d *Dir) finish(s swap) error {
	if !s.Moved {
		if err := os.MkdirAll(d.Join(s.Old), 0o700); err != nil {
			return err
		}
		if err := moveAll(d.path, d.Join(s.Old), s.stays); err != nil {
			return err
		}
		s.Moved = true
		if err := WriteJSON(d.Join(swapFile), s); err != nil {
			return err
		}
	}
	if err := moveAll(d.Join(s.New), d.path, func(fs.DirEntry) bool { return false }); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(d.Join(s.New)), os.Remove(d.Join(swapFile))); err != nil {
		return err
	}
	return SyncDir(d.path)
}

func moveAll(from, to string, stays func(fs.DirEntry) bool) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil // moved and removed before a crash
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if stays(entry) {
			continue
		}
		if err := os.Rename(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return errors.Join(SyncDir(to), SyncDir(from))
}
