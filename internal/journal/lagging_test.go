package journal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// base returns what makes a base of the snapshot.
func (f *fixture) base(snapshot func(context.Context) (io.ReadCloser, error)) func(context.Context, string, string, string) (*backup.Manifest, error) {
	return func(ctx context.Context, chain, key, path string) (*backup.Manifest, error) {
		source := backup.Source{DataDir: f.dataDir, Stamp: datadir.CurrentStamp(), Snapshot: snapshot, Prefix: "/registry"}
		return backup.Save(ctx, path, f.config.Encryption, func(ctx context.Context, w io.Writer) error {
			_, err := backup.Write(ctx, w, source, backup.Options{Reason: backup.ReasonJournal, Chain: chain, ChainKey: key})
			return err
		})
	}
}

// TestLaggingMember: the snapshot of a member that lacks recorded changes does not
// become a base.
func TestLaggingMember(t *testing.T) {
	t.Parallel()
	f := start(t, NewDirectory(t.TempDir()), t.TempDir(), nil)
	f.caughtUp()
	f.stopWriter()
	stream, err := f.member.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old, err := io.ReadAll(stream)
	if err = errors.Join(err, stream.Close()); err != nil {
		t.Fatal(err)
	}
	f.history(3)
	store := NewDirectory(t.TempDir())
	var lags atomic.Bool
	lags.Store(true)
	f.config.Store, f.config.Base = store, f.base(func(ctx context.Context) (io.ReadCloser, error) {
		if lags.Load() {
			return io.NopCloser(bytes.NewReader(old)), nil
		}
		return f.member.Snapshot(ctx)
	})
	f.startWriter()
	await(t, "the account has the error", func() error {
		if text := f.writer.Account(t.Context()).Error; !strings.Contains(text, "its member lags behind") {
			return errors.New(text)
		}
		return nil
	})
	lags.Store(false)
	f.caughtUp()
	restoresAll(t, f, store)
}

// TestCompactedSnapshot: a snapshot whose last record was a deletion, and has been
// compacted, is not that of a member that lags behind.
func TestCompactedSnapshot(t *testing.T) {
	t.Parallel()
	f := start(t, NewDirectory(t.TempDir()), t.TempDir(), nil)
	f.caughtUp()
	f.stopWriter()
	f.put("a", "1")
	if _, err := f.member.Client().Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.member.Client().Compact(t.Context(), revision(t, f), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	store := NewDirectory(t.TempDir())
	f.config.Store = store
	f.startWriter()
	f.caughtUp()
	f.history(1)
	f.caughtUp()
	restoresAll(t, f, store)
}
