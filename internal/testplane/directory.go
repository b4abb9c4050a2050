package testplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

const (
	// directoryPrefix begins the names of temporary directories.
	directoryPrefix = "kube-hyper-mini-run-"
	// ownerLock is a file in a temporary directory, locked by the process that uses the
	// directory. A directory that is kept has none.
	ownerLock = "owner.lock"
	// sweptSize is the size of that file, in bytes, when another process removes the
	// directory.
	sweptSize = 1
	// makeTries bounds the attempts to make a directory: another process may remove it
	// before it is locked.
	makeTries = 10
)

// minRoom is the space in bytes that a server needs for its start and a few
// thousand objects.
const minRoom = 48 << 20

// Directory is the temporary directory of one server. It has the data directory
// and the server's log.
type Directory struct {
	path string
	lock *os.File // nil if the directory is kept
}

// MakeDirectory makes a directory for this user only in [os.TempDir]. It first removes
// the directories of killed processes there, except those that were made with keep. It
// returns an error if the disk has no room for a server.
func MakeDirectory(keep bool) (*Directory, error) {
	parent, err := filepath.Abs(os.TempDir())
	if err != nil {
		return nil, fmt.Errorf("find the temporary directory: %w", err)
	}
	sweep(parent)
	if err := checkRoom(parent); err != nil {
		return nil, err
	}
	for range makeTries {
		path, err := os.MkdirTemp(parent, directoryPrefix)
		if err != nil {
			return nil, fmt.Errorf("make a directory in %s: %w; set TMPDIR to another directory", parent, err)
		}
		if keep {
			return &Directory{path: path}, nil
		}
		lock, err := lockDirectory(path)
		switch {
		case err == nil:
			return &Directory{path, lock}, nil
		case !errors.Is(err, datadir.ErrLocked) && !errors.Is(err, os.ErrNotExist): // not swept
			return nil, errors.Join(fmt.Errorf("lock the temporary directory %s: %w", path, err), os.RemoveAll(path))
		}
	}
	return nil, fmt.Errorf("make a directory in %s: other processes have removed it each time; set TMPDIR to another directory", parent)
}

// lockDirectory locks a new directory. It returns datadir.ErrLocked if another process is
// about to remove it: that process may find the file before it is locked.
func lockDirectory(path string) (*os.File, error) {
	lock, err := datadir.TryLock(filepath.Join(path, ownerLock))
	if err != nil {
		return nil, err
	}
	info, err := lock.Stat()
	if err == nil && info.Size() == sweptSize {
		err = datadir.ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// sweep removes the temporary directories of this user in parent that no process has
// locked. In a directory of another user the lock may be a link to any file.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // making a directory reports it
	}
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), directoryPrefix) {
			continue
		}
		if info, err := entry.Info(); err != nil || !datadir.OwnedByUser(info) {
			continue
		}
		directory := filepath.Join(parent, entry.Name())
		path := filepath.Join(directory, ownerLock)
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue // kept
		}
		lock, err := datadir.TryLock(path)
		if err != nil {
			continue
		}
		// A process that locks it between Close and RemoveAll sees that it is being removed.
		err = lock.Truncate(sweptSize)
		if err = errors.Join(err, lock.Close()); err == nil { // Windows removes no open file
			_ = os.RemoveAll(directory)
		}
	}
}

func checkRoom(parent string) error {
	free, _, err := datadir.DiskSpace(parent)
	if err != nil {
		return fmt.Errorf("use the temporary directory %s: %w; set TMPDIR to another directory", parent, err)
	}
	if free < minRoom {
		return fmt.Errorf("%w: the temporary directory %s has %s free, and a server needs %s; make room, or set TMPDIR to another directory",
			datadir.ErrNoSpace, parent, datadir.Size(free), datadir.Size(minRoom))
	}
	return nil
}

// fullRoom is the space in bytes that a full disk may still have.
const fullRoom = 1 << 20

// explain adds to an error that the disk of the directory is full, if it is, or was when
// a file in the directory could not be written.
func (d *Directory) explain(err error) error {
	if err == nil {
		return nil
	}
	parent := filepath.Dir(d.path)
	if !etcdfiles.IsFullDisk(err, d.path) {
		if free, _, spaceErr := datadir.DiskSpace(parent); spaceErr != nil || free >= fullRoom {
			return err
		}
	}
	return fmt.Errorf("%w; the temporary directory %s is full: make room, or set TMPDIR to another directory", err, parent)
}

// Path is the absolute path of the directory.
func (d *Directory) Path() string { return d.path }

// Data is the path of the data directory in it.
func (d *Directory) Data() string { return filepath.Join(d.path, "data") }

// Log is the path of the server's log in it.
func (d *Directory) Log() string { return filepath.Join(d.path, "server.log") }

// ErrLeft means that the temporary directory could not be removed yet, because etcd uses
// it. The guard removes it when this process has ended, or the next process that makes one.
var ErrLeft = errors.New("etcd still uses the temporary directory")

// Remove removes the directory with its content, when no server and no etcd uses the data.
// It waits for that until ctx ends, at most for [datadir.RemovalTimeout], and then returns
// ErrLeft: the directory stays locked.
func (d *Directory) Remove(ctx context.Context) error {
	err := awaitUnlocked(ctx, d.Data())
	if errors.Is(err, datadir.ErrLocked) {
		return fmt.Errorf("%w %s: it is removed when this process has ended", ErrLeft, d.path)
	}
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close()) // Windows removes no open file
	}
	if err = errors.Join(err, os.RemoveAll(d.path)); err != nil {
		return fmt.Errorf("remove the temporary directory: %w", err)
	}
	return nil
}

// awaitUnlocked waits until the data directory is not locked: a server that is stopped
// while etcd opens its data does not wait for etcd. It returns datadir.ErrLocked when ctx
// has ended or the time is over.
func awaitUnlocked(ctx context.Context, data string) error {
	ctx, cancel := context.WithTimeout(ctx, datadir.RemovalTimeout)
	defer cancel()
	for {
		lock, err := datadir.TryLock(filepath.Join(data, "lock"))
		switch {
		case err == nil:
			return lock.Close()
		case errors.Is(err, os.ErrNotExist):
			return nil // no server was started
		case !errors.Is(err, datadir.ErrLocked):
			return fmt.Errorf("wait for the end of etcd: %w", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lockPoll):
		}
	}
}
