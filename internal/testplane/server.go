package testplane

import (
	"context"
	"errors"
	"os"

	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
)

// Directory is a temporary directory that the guard removes if this process is killed.
type Directory struct {
	temporary.Directory
	guard *Guard
	keep  bool
}

// NewDirectory makes a temporary directory. keep leaves it where it is. The caller calls Close.
func NewDirectory(keep bool) (*Directory, error) {
	dir, err := temporary.Make()
	if err != nil {
		return nil, err
	}
	guarded := string(dir)
	if keep {
		guarded = ""
	}
	guard, err := StartGuard(guarded)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(string(dir)))
	}
	return &Directory{dir, guard, keep}, nil
}

// Close removes the directory, unless it is kept, and ends the guard. After an error, as
// [temporary.ErrLeft], the guard removes the directory at the end of this process.
func (d *Directory) Close() error {
	if !d.keep {
		if err := d.Remove(context.Background()); err != nil {
			return err
		}
	}
	return d.guard.Release()
}
