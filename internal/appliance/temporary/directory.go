package temporary

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// directoryPrefix begins the names of temporary directories.
const directoryPrefix = "kube-hyper-mini-run-"

// minRoom is the space in bytes that a server needs for its start and a few
// thousand objects.
const minRoom = 48 << 20

// Directory is the path of the temporary directory of one server. It has the data directory
// and the server's log.
type Directory string

// Make makes a directory for this user only in [os.TempDir]. It returns an error if
// the disk has no room for a server.
func Make() (Directory, error) {
	parent, err := filepath.Abs(os.TempDir())
	if err != nil {
		return "", fmt.Errorf("find the temporary directory: %w", err)
	}
	if err := checkRoom(parent); err != nil {
		return "", err
	}
	path, err := os.MkdirTemp(parent, directoryPrefix)
	if err != nil {
		return "", fmt.Errorf("make a directory in %s: %w; set TMPDIR to another directory", parent, err)
	}
	return Directory(path), nil
}

func checkRoom(parent string) error {
	free, _, err := datadir.DiskSpace(parent)
	if err != nil {
		return fmt.Errorf("use the temporary directory %s: %w; set TMPDIR to another directory", parent, err)
	}
	if free < minRoom {
		return fmt.Errorf("%w: the temporary directory %s has %s free, and a server needs %s; make room, "+
			"or set TMPDIR to another directory",
			datadir.ErrNoSpace, parent, datadir.Size(free), datadir.Size(minRoom))
	}
	return nil
}

// Data is the path of the data directory in it.
func (d Directory) Data() string { return filepath.Join(string(d), "data") }

// Log is the path of the server's log in it.
func (d Directory) Log() string { return filepath.Join(string(d), "server.log") }

// ErrLeft means that the temporary directory could not be removed yet, because etcd uses
// it. The guard removes it when this process has ended.
var ErrLeft = errors.New("etcd still uses the temporary directory")

// Remove removes the directory with its content, when no server and no etcd uses the data.
// It waits for that until ctx ends, at most for [datadir.RemovalTimeout], and then returns
// ErrLeft.
func (d Directory) Remove(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, datadir.RemovalTimeout)
	defer cancel()
	err := datadir.AwaitUnlocked(waiting, d.Data())
	if errors.Is(err, datadir.ErrLocked) {
		return fmt.Errorf("%w %s: it is removed when this process has ended", ErrLeft, string(d))
	}
	if err = errors.Join(err, os.RemoveAll(string(d))); err != nil {
		return fmt.Errorf("remove the temporary directory: %w", err)
	}
	return nil
}
