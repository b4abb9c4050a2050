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
)

// sealPatience bounds how much the seal may add to a stop. A database that is
// too large for it is checked like one that was not closed.
const sealPatience = 5 * time.Second

// seal says what the database was when the member was stopped. bbolt has no
// checksums for its pages: with the seal, each altered byte is noticed. While a
// member runs there is none.
type seal struct {
	// Size of the database file in bytes; Used is what of it has ever been
	// used, the beginning, and Sum the CRC-32 (Castagnoli) of that.
	Size int64  `json:"size"`
	Used int64  `json:"used"`
	Sum  uint32 `json:"crc32c"`
}

func sealFile(dir string) string { return filepath.Join(dir, "seal.json") }

// writeSeal seals the closed database, or leaves it unsealed when that takes
// too long.
func writeSeal(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, sealPatience)
	defer cancel()
	current, err := sum(ctx, databaseFile(dir))
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("seal the database: %w", err)
	}
	data, err := json.Marshal(current)
	if err != nil {
		return fmt.Errorf("seal the database: %w", err)
	}
	return datadir.WriteFile(sealFile(dir), append(data, '\n'), 0o600)
}

// checkSeal says whether there is a seal, and fails if the database is another
// one.
func checkSeal(ctx context.Context, dir string) (bool, error) {
	file := sealFile(dir)
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	sealed := &seal{}
	if err := json.Unmarshal(data, sealed); err != nil {
		return false, fmt.Errorf("its checksum %s is not readable (%w)", file, err)
	}
	current, err := sum(ctx, databaseFile(dir))
	if err != nil {
		return false, err
	}
	if *current != *sealed {
		return false, fmt.Errorf("it is not what the last stop has left (%d bytes with checksum %08x; they were %d with %08x); if it was changed on purpose, remove %s",
			current.Size, current.Sum, sealed.Size, sealed.Sum, file)
	}
	return true, nil
}

// breakSeal removes the seal for good before the database is written to.
func breakSeal(dir string) error {
	err := os.Remove(sealFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = datadir.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("break the seal of the database: %w", err)
	}
	return nil
}

func sum(ctx context.Context, path string) (*seal, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	p := &pages{file: file, fileSize: info.Size()}
	if err := p.readMeta(); err != nil {
		return nil, err
	}
	result := &seal{Size: info.Size(), Used: int64(p.end) * p.pageSize}
	used := io.NewSectionReader(file, 0, result.Used)
	checksum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	buffer := make([]byte, 1<<20)
	for {
		n, err := used.Read(buffer)
		_, _ = checksum.Write(buffer[:n]) // cannot fail
		if errors.Is(err, io.EOF) {
			result.Sum = checksum.Sum32()
			return result, nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
	}
}
