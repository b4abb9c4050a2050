package testplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// fill makes the data directory to from a backup, from a data directory, or from a
// temporary directory that was kept. The source stays as it is, and no server may use
// it.
func fill(ctx context.Context, from, to string, log *slog.Logger) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return copyData(ctx, from, to)
	}
	return restore(ctx, from, to, log)
}

// restore unpacks and verifies the backup.
func restore(ctx context.Context, file, to string, log *slog.Logger) error {
	cfg := config.Default()
	cfg.DataDir = to
	if err := cfg.Complete(); err != nil {
		return err
	}
	if _, err := parts.Restore(ctx, cfg, log, journal.RestoreConfig{File: file}); err != nil {
		return err
	}
	return etcd.WriteChecksum(ctx, filepath.Join(to, "etcd"))
}

// copied has the entries of a data directory that a new server needs.
var copied = []string{"version.json", "pki", "encryption", "etcd"}

func copyData(ctx context.Context, from, to string) error {
	if _, err := os.Stat(filepath.Join(from, "version.json")); errors.Is(err, os.ErrNotExist) {
		from = filepath.Join(from, "data") // of a [temporary.Directory]
		if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
			return errors.New("it is neither a data directory nor a directory that run --keep has kept: name one of these, or a backup")
		}
	}
	stamp, err := datadir.ReadStamp(from)
	if err != nil {
		return err
	}
	if current := datadir.CurrentStamp(); stamp != nil && stamp.NewerThan(current) {
		return fmt.Errorf("it was written by kube-hyper-mini %s, and this is %s, which cannot read it: use that release or a newer one", stamp, current)
	}
	if err := datadir.RequireUsed(from); err != nil {
		return err
	}
	if err := requireUnused(ctx, from); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err := datadir.CopyEntries(ctx, from, to, copied); err != nil {
		return err
	}
	return requireUnused(ctx, from) // a server that was started meanwhile may have changed files
}

// Other runs that start from the same directory hold its lock for a moment.
const (
	lockTries = 100
	lockPoll  = 10 * time.Millisecond
)

// requireUnused returns an error if a server uses the data directory.
func requireUnused(ctx context.Context, path string) (err error) {
	for range lockTries {
		var dir *datadir.Dir
		if dir, err = datadir.Lock(path); err == nil {
			return dir.Close()
		}
		if !errors.Is(err, datadir.ErrLocked) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
	return err
}
