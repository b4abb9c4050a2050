package parts

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
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

// TestRestoreIfEmptyIncomplete: a journal whose end is not that of its chain may have lost changes.
// The start fails with the command that restores what there is, and the directory stays empty.
func TestRestoreIfEmptyIncomplete(t *testing.T) {
	cfg := config.Default()
	cfg.DataDir, cfg.Journal.RestoreIfEmpty, cfg.Journal.Destination = t.TempDir(), true, t.TempDir()
	chain := filepath.Join(cfg.Journal.Destination, "chains", "00000001")
	made := journal.BaseName{Revision: 1, Sequence: 1, Time: time.Now(), Extension: ".tar.gz"}
	err := errors.Join(os.MkdirAll(filepath.Join(chain, "bases"), 0o700), os.Mkdir(filepath.Join(chain, "ends"), 0o700),
		datadir.WriteJSON(filepath.Join(chain, "chain.json"), journal.Claim{Format: journal.Format, ID: "id", Writer: "writer"}),
		datadir.WriteJSON(filepath.Join(chain, "ends", "0000000001-0000000000.json"), map[string]bool{"closed": true}))
	if err != nil {
		t.Fatal(err)
	}
	member, stop, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBytes: 1 << 30, Logger: zap.NewNop()})
	if err == nil {
		err = member.WaitReady(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	source := backup.Source{DataDir: t.TempDir(), Stamp: datadir.CurrentStamp(), Snapshot: member.Snapshot, Prefix: "/registry"}
	_, err = backup.Save(t.Context(), filepath.Join(chain, "bases", made.String()), backup.Encryption{}, func(ctx context.Context, w io.Writer) error {
		_, err := backup.Write(ctx, w, source, backup.Options{Reason: backup.ReasonJournal, Chain: "id", ChainKey: "key"})
		return err
	})
	if err = errors.Join(err, stop()); err != nil {
		t.Fatal(err)
	}
	err = RestoreIfEmpty(t.Context(), cfg, slog.New(slog.DiscardHandler))
	command := "backup restore --data-dir " + cfg.DataDir + " --from " + cfg.Journal.Destination + " --revision 1"
	if err == nil || !strings.Contains(err.Error(), command) || !strings.Contains(err.Error(), "was not written by the server") {
		t.Errorf("the error is %v, want the command %q", err, command)
	}
	if stamp, err := datadir.ReadStamp(cfg.DataDir); err != nil || stamp != nil || etcd.Exists(filepath.Join(cfg.DataDir, "etcd")) {
		t.Errorf("the directory is not empty: %v, %v", stamp, err)
	}
}
