package parts

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestRestoreIfEmptyKeepsData: a directory whose stamp was removed has a database, which no
// journal replaces.
func TestRestoreIfEmptyKeepsData(t *testing.T) {
	cfg := config.Default()
	cfg.DataDir, cfg.Journal.RestoreIfEmpty, cfg.Journal.Destination = t.TempDir(), true, t.TempDir()
	chain := filepath.Join(cfg.Journal.Destination, "chains", "00000001")
	err := errors.Join(os.MkdirAll(chain, 0o700), os.WriteFile(filepath.Join(chain, "chain.json"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a restore would wait for the end of the journal's server
	restore := func() error { return RestoreIfEmpty(ctx, cfg, slog.New(slog.DiscardHandler)) }
	if err := restore(); err == nil {
		t.Error("an empty directory was left empty")
	}
	if err := os.MkdirAll(filepath.Join(cfg.DataDir, "etcd", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Errorf("a directory with a database: %v", err)
	}
}

// TestRestoreIfEmptyWithoutJournal: a destination that does not exist fails the start, which makes
// nothing in the directory that its disk is mounted on. An existing one is for a first start.
func TestRestoreIfEmptyWithoutJournal(t *testing.T) {
	cfg, log := config.Default(), &strings.Builder{}
	cfg.DataDir, cfg.Journal.RestoreIfEmpty = t.TempDir(), true
	cfg.Journal.Destination = filepath.Join(t.TempDir(), "mount", "journal")
	restore := func() error { return RestoreIfEmpty(t.Context(), cfg, slog.New(slog.NewTextHandler(log, nil))) }
	if err := restore(); err == nil || !strings.Contains(err.Error(), "mount its disk") {
		t.Errorf("a missing destination: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(cfg.Journal.Destination)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the destination was made: %v", err)
	}
	if err := os.MkdirAll(cfg.Journal.Destination, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil || !strings.Contains(log.String(), "this server starts empty") {
		t.Errorf("an empty destination: %v, logged %q", err, log)
	}
}
