package testplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// directoryPrefix begins the names of temporary directories.
const directoryPrefix = "kube-hyper-mini-run-"

// minRoom is the space in bytes that a server needs for its start and a few
// thousand objects.
const minRoom = 48 << 20

// Directory is the temporary directory of one server. It has the data directory
// and the server's log.
type Directory struct {
	path string
}

// MakeDirectory makes a directory for this user only in [os.TempDir]. It returns
// an error if the disk has no room for a server.
func MakeDirectory() (*Directory, error) {
	parent, err := filepath.Abs(os.TempDir())
	if err != nil {
		return nil, fmt.Errorf("find the temporary directory: %w", err)
	}
	if err := checkRoom(parent); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, directoryPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory in %s: %w; set TMPDIR to another directory", parent, err)
	}
	return &Directory{path}, nil
}

func checkRoom(parent string) error {
	free, _, err := datadir.DiskSpace(parent)
	if err != nil {
		return fmt.Errorf("use the temporary directory %s: %w; set TMPDIR to another directory", parent, err)
	}
	if free < minRoom {
		return fmt.Errorf("%w: the temporary directory %s has %s left, and a server needs %s; make room, or set TMPDIR to another directory",
			datadir.ErrNoSpace, parent, humanize.IBytes(uint64(free)), humanize.IBytes(minRoom))
	}
	return nil
}

// Path is the absolute path of the directory.
func (d *Directory) Path() string { return d.path }

// Data is the path of the data directory in it.
func (d *Directory) Data() string { return filepath.Join(d.path, "data") }

// Log is the path of the server's log in it.
func (d *Directory) Log() string { return filepath.Join(d.path, "server.log") }

// Remove removes the directory with its content.
func (d *Directory) Remove() error {
	if err := os.RemoveAll(d.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the temporary directory: %w", err)
	}
	return nil
}
