package datastore

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"go.etcd.io/bbolt"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
)

// openStore opens the data directory with a store that does not run.
func openStore(t *testing.T, path string) (*datadir.Dir, *Embedded) {
	t.Helper()
	dir, err := datadir.Open(path, datadir.Stamp{Format: datadir.Format})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Etcd.Embedded.Fsync = false
	return dir, NewEmbedded(cfg, dir, slog.New(slog.DiscardHandler))
}

// TestStopWhileTheDatabaseIsOpened: the data directory is locked until etcd has closed it.
func TestStopWhileTheDatabaseIsOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	dir, store := openStore(t, path)
	stop, err := lifecycle.Begin(t.Context(), store.Run)
	if err == nil {
		err = errors.Join(store.WaitReady(t.Context()), stop(), dir.WriteStamp(datadir.Stamp{Format: datadir.Format}), dir.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	held, err := bbolt.Open(etcd.DatabaseFile(dir.Join("etcd")), 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}

	dir, store = openStore(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx, func() { t.Error("it is ready") }) }()
	for { // the start removes the checksum before etcd opens the database
		if _, err := os.Stat(dir.Join("etcd", "seal.json")); errors.Is(err, os.ErrNotExist) {
			break
		}
		if len(ended) > 0 {
			t.Fatalf("the start failed: %v", <-ended)
		}
		runtime.Gosched()
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Lock(path); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("while etcd waits for its database, the lock says: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	for dir, err = datadir.Lock(path); errors.Is(err, datadir.ErrLocked); dir, err = datadir.Lock(path) {
		runtime.Gosched()
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		t.Fatal(err)
	}

	dir, store = openStore(t, path)
	stop, err = lifecycle.Begin(t.Context(), store.Run)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.WaitReady(t.Context()), stop(), dir.Close()); err != nil {
		t.Error(err)
	}
}
