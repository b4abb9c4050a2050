package etcd

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

const (
	// checksumTimeout bounds the time that writing the checksum adds to a stop.
	// Without a checksum the next start checks the database instead.
	checksumTimeout = 5 * time.Second
	// checksumPiece is the number of bytes that are read at a time. Of a database
	// that is larger than maxChecked, evenly spread pieces are read.
	checksumPiece = 1 << 20
	// maxChecked bounds the bytes of the database that a start reads for the checksum. A disk
	// with 600 MB/s delivers 256 MiB in less than half a second.
	maxChecked = 256 << 20
)

// checksum describes the database after the member was stopped. bbolt has no
// checksums for its pages: this one detects each altered byte of a database of up to
// maxChecked bytes. The file does not exist while a member runs.
type checksum struct {
	// Size of the database file in bytes. Used is the size of its first part, which
	// has been written to. Sum is the CRC-32 (Castagnoli) of that part, or of pieces
	// of it if it is larger than maxChecked.
	Size int64  `json:"size"`
	Used int64  `json:"used"`
	Sum  uint32 `json:"crc32c"`
}

func checksumFile(dir string) string { return filepath.Join(dir, "seal.json") }

// WriteChecksum writes the checksum of the database in the directory of a stopped member,
// which its next start verifies, unless that takes longer than checksumTimeout. Without it,
// the start checks the database.
func WriteChecksum(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, checksumTimeout)
	defer cancel()
	current, err := sum(ctx, DatabaseFile(dir), maxChecked)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the checksum of the database: %w", err)
	}
	return datadir.WriteJSON(checksumFile(dir), current)
}

// verifyChecksum reports whether there is a checksum. It returns an error if the
// checksum does not match the database.
func verifyChecksum(ctx context.Context, dir string) (bool, error) {
	file := checksumFile(dir)
	written := &checksum{}
	if found, err := datadir.ReadJSON(file, written); err != nil || !found {
		return false, err
	}
	current, err := sum(ctx, DatabaseFile(dir), maxChecked)
	if err != nil {
		return false, err
	}
	if *current != *written {
		return false, fmt.Errorf("it was changed after the last stop (%d bytes with checksum %08x, the stop wrote %d "+
			"bytes with checksum %08x); if the change was intended, remove %s",
			current.Size, current.Sum, written.Size, written.Sum, file)
	}
	return true, nil
}

// removeChecksum removes the checksum, durably, before the database is changed.
func removeChecksum(dir string) error { return datadir.RemoveFile(checksumFile(dir)) }

// UsedSize returns the bytes of a database, which no process has open, that were written to, and
// which etcd compares with its quota: bbolt makes the file larger in advance.
func UsedSize(file string) (used int64, err error) {
	err = readDatabase(file, func(tx *bbolt.Tx) error { used = tx.Size(); return nil })
	return used, err
}

// sum computes the checksum of a database. It reads at most about bound bytes.
func sum(ctx context.Context, path string, bound int64) (*checksum, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	used, err := UsedSize(path)
	if err != nil {
		return nil, err
	}
	stride := int64(checksumPiece)
	if used > bound {
		stride *= (used + bound - 1) / bound
	}
	digest := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	for at := int64(0); at < used; at += stride {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, err := io.Copy(digest, io.NewSectionReader(file, at, min(checksumPiece, used-at))); err != nil {
			return nil, err
		}
	}
	return &checksum{Size: info.Size(), Used: used, Sum: digest.Sum32()}, nil
}
