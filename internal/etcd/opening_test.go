package etcd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"go.etcd.io/bbolt"
	"go.uber.org/zap"
)

// TestStopWhileTheDatabaseIsOpened: etcd waits for the lock of the database as it reads a
// large one. Run does not wait for it, and what it has opened is closed.
func TestStopWhileTheDatabaseIsOpened(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etcd")
	closed := make(chan struct{})
	config := Config{Dir: dir, QuotaBytes: 64 << 20, Logger: zap.NewNop()}
	m := startWith(t, config)
	if _, err := m.Client().Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	stop(t, m)
	// The lock of a reader, which the check of the data may share, and etcd may not.
	held, err := bbolt.Open(DatabaseFile(dir), 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}

	errStop := errors.New("stopped by a signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	config.Closed = func() { close(closed) }
	ended := make(chan error, 1)
	go func() { ended <- New(config).Run(ctx, func() { t.Error("it is ready") }) }()
	for { // the start removes the checksum before etcd opens the database
		if _, err := os.Stat(checksumFile(dir)); errors.Is(err, os.ErrNotExist) {
			break
		}
		if len(ended) > 0 {
			t.Fatalf("the start failed: %v", <-ended)
		}
		runtime.Gosched()
	}
	cancel(errStop)
	if err := <-ended; !errors.Is(err, errStop) {
		t.Errorf("it ended with %v, want the cause of the context", err)
	}
	select {
	case <-closed:
		t.Error("it says that etcd is closed")
	default:
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	<-closed
	config.Closed = nil
	m = startWith(t, config)
	defer stop(t, m)
	if got, err := m.Client().Get(t.Context(), "key"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
