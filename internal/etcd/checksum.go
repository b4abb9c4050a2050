package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

const (
	// checksumTimeout bounds how much the checksum may add to a stop. Without it
	// the database is checked like one that was not closed.
	checksumTimeout = 5 * time.Second
	// checksumPiece is read at a time, in bytes. Of a database that is larger than
	// maxChecked only evenly spread pieces are read.
	checksumPiece = 1 << 20
)

// checksum describes the database when the member was stopped. bbolt has no
// checksums for its pages: with this one, each altered byte is found of a
// database of up to maxChecked. While a member runs there is none.
type checksum struct {
	// Size of the database file in bytes; Used is what of it has ever been
	// used, the beginning, and Sum the CRC-32 (Castagnoli) of that, or of its
	// pieces if it is larger than maxChecked.
	Size int64  `json:"size"`
	Used int64  `json:"used"`
	Sum  uint32 `json:"crc32c"`
}

func checksumFile(dir string) string { return filepath.Join(dir, "seal.json") }

// writeChecksum writes the checksum of the closed database, or none if that
// takes too long.
func writeChecksum(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, checksumTimeout)
	defer cancel()
	current, err := sum(ctx, databaseFile(dir), maxChecked)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the checksum of the database: %w", err)
	}
	data, err := json.Marshal(current)
	if err != nil {
		return fmt.Errorf("write the checksum of the database: %w", err)
	}
	return datadir.WriteFile(checksumFile(dir), append(data, '\n'), 0o600)
}

// verifyChecksum says whether there is a checksum, and fails if it is that of
// another database.
func verifyChecksum(ctx context.Context, dir string) (bool, error) {
	file := checksumFile(dir)
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	written := &checksum{}
	if err := json.Unmarshal(data, written); err != nil {
		return false, fmt.Errorf("its checksum %s is not readable (%w)", file, err)
	}
	current, err := sum(ctx, databaseFile(dir), maxChecked)
	if err != nil {
		return false, err
	}
	if *current != *written {
		return false, fmt.Errorf("it differs from the one that the last stop left (%d bytes with checksum %08x; they were %d with %08x); if it was changed on purpose, remove %s",
			current.Size, current.Sum, written.Size, written.Sum, file)
	}
	return true, nil
}

// removeChecksum removes the checksum for good before the database is written
// to.
func removeChecksum(dir string) error {
	err := os.Remove(checksumFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = datadir.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("remove the checksum of the database: %w", err)
	}
	return nil
}

// sum reads the used part of a database, or pieces of it that are bound bytes
// together.
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
	used, err := etcdfiles.UsedBytes(file)
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
