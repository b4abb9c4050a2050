package datadir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// copyPiece is the number of bytes that are copied before the context is looked at.
const copyPiece = 16 << 20

// CopyFile copies a file to one that does not exist. Where the file system can share
// blocks, the copy shares them. It returns the size of the file in bytes. The end of ctx
// leaves a part of the copy.
func CopyFile(ctx context.Context, from, to string, mode os.FileMode) (size int64, err error) {
	source, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for {
		if ctx.Err() != nil {
			return size, context.Cause(ctx)
		}
		n, err := io.Copy(file, io.LimitReader(source, copyPiece)) // copy_file_range where the system has it
		size += n
		if err != nil || n < copyPiece {
			return size, err
		}
	}
}

// CopyTree copies a file, or a directory with its content, for this user only: sockets are left
// out, and links are replaced by what they lead to. [os.CopyFS] cannot be cancelled.
func CopyTree(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case entry.Type()&fs.ModeSocket != 0:
			return nil
		}
		_, err = CopyFile(ctx, path, target, 0o600)
		return err
	})
}

// CopyEntries is [CopyTree] for the named entries of a directory, as far as they exist.
func CopyEntries(ctx context.Context, from, to string, names []string) error {
	for _, name := range names {
		if err := CopyTree(ctx, filepath.Join(from, name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// TreeSize returns the size of the regular files below a directory, in bytes. With an error it
// is that of the files before.
func TreeSize(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
