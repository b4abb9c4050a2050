package datadir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// copyPiece is the number of bytes that are copied before the context is looked at.
const copyPiece = 16 << 20

// seekData and seekHole are the whence of lseek on Linux that find the next part of a file that
// has, or has not, blocks on the disk.
const seekData, seekHole = 3, 4

// CopyFile copies a file to one that does not exist. Where the file system can share
// blocks, the copy shares them; on Linux, what has no blocks has none in the copy. It returns
// the size of the file in bytes. The end of ctx leaves a part of the copy.
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
	info, err := source.Stat()
	if err != nil {
		return 0, err
	}
	for end := int64(0); size < info.Size(); {
		if ctx.Err() != nil {
			return size, context.Cause(ctx)
		}
		if size >= end {
			if size, end, err = nextData(source, size, info.Size()); err != nil {
				return size, err
			}
			if _, err := file.Seek(size, io.SeekStart); err != nil {
				return size, err
			}
		}
		n, err := io.CopyN(file, source, min(copyPiece, end-size)) // copy_file_range where the system has it
		size += n
		if err != nil {
			return size, err
		}
	}
	return size, file.Truncate(size)
}

// nextData returns the next part of a file, from the offset on, that has blocks on the disk, and
// moves to its begin. It is empty, at the end of the file, if there is none.
func nextData(file *os.File, offset, size int64) (begin, end int64, err error) {
	begin, end = offset, size
	if runtime.GOOS == "linux" {
		data, err := file.Seek(offset, seekData)
		if errors.Is(err, syscall.ENXIO) {
			return size, size, nil
		}
		if hole, err2 := file.Seek(data, seekHole); errors.Join(err, err2) == nil { // else a file system that does not know
			begin, end = data, min(hole, size)
		}
	}
	_, err = file.Seek(begin, io.SeekStart)
	return begin, end, err
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

// TreeSize returns the room that the regular files below a directory take on the disk, in bytes.
// With an error it is the size of the files counted so far.
func TreeSize(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += allocated(info)
		}
		return err
	})
	return size, err
}
