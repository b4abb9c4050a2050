package datastore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"kube-hyper-mini.io/kube-hyper-mini/config"
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
	embedded := config.Default().Etcd.Embedded
	embedded.Fsync = false
	return dir, NewEmbedded(Config{Embedded: embedded, Dir: dir, Log: slog.New(slog.DiscardHandler)})
}

// await returns when the condition, which nothing announces, holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
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
	await(t, "the start removes the checksum before etcd opens the database", func() bool {
		if len(ended) > 0 {
			t.Fatalf("the start failed: %v", <-ended)
		}
		_, err := os.Stat(dir.Join("etcd", "seal.json"))
		return errors.Is(err, os.ErrNotExist)
	})
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
	await(t, "etcd closes the database", func() bool {
		dir, err = datadir.Lock(path)
		return !errors.Is(err, datadir.ErrLocked)
	})
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

// TestFailureEndsTheKeeper: when the member fails, nothing maintains the database after Run.
func TestFailureEndsTheKeeper(t *testing.T) {
	dir, store := openStore(t, filepath.Join(t.TempDir(), "data"))
	defer func() { _ = dir.Close() }() // the member keeps its files open
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- store.Run(t.Context(), func() { close(ready) }) }()
	<-ready
	if err := store.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir.Join("etcd", "member", "wal")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { // the log goes into its next file, which is gone
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = store.member.Client().Put(ctx, fmt.Sprint(i%8), strings.Repeat("x", 1<<20)) // the last one fails
		}
	})
	if err := <-ended; err == nil {
		t.Error("Run returned no error")
	}
	cancel()
	writing.Wait()
	if keeperRuns() {
		t.Error("the keeper runs after Run has returned")
	}
}

// keeperRuns reports whether a goroutine maintains a database.
func keeperRuns() bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("maintenance.(*Keeper).Run"))
}
