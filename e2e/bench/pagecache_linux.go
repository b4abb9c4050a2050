package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// forget writes a program to the disk and removes it from the page cache, so
// that it is read again as it is used: the state that a machine is in which was
// booted since the program was installed.
//
// Right after it was written, the kernel keeps a file in pieces of up to 2 MB,
// and maps such a piece as a whole when one byte of it is used. All of it counts
// as resident then, several times what the process has touched.
func forget(path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open a program: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Sync(); err != nil {
		return fmt.Errorf("write a program to the disk: %w", err)
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("take %s out of the page cache: %w", path, err)
	}
	return nil
}

// settleDisk returns when all that was written is on the disk: neither side is
// to wait for what the one before it has left.
func settleDisk() { unix.Sync() }
