package etcd

import (
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// newLog makes the log of a member that was stopped before its first entry.
func newLog(t *testing.T, dir string) {
	t.Helper()
	metadata, err := (&etcdserverpb.Metadata{NodeID: 1, ClusterID: 1}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	log, err := wal.Create(zap.NewNop(), filepath.Join(dir, "member", "wal"), metadata)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStartAfterAnInterruptedFirstStart(t *testing.T) {
	dir := t.TempDir()
	newLog(t, dir)
	stop(t, start(t, dir))
}

func TestDataIsNotAnInterruptedFirstStart(t *testing.T) {
	dir := t.TempDir()
	member := start(t, dir)
	if _, err := member.Client().Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	stop(t, member)
	member = start(t, dir)
	if got, err := member.Client().Get(t.Context(), "key"); err != nil || len(got.Kvs) != 1 {
		t.Fatalf("after a restart: %v %v", got, err)
	}
	stop(t, member)

	// A lost log is not that of an interrupted first start.
	files := filepath.Join(dir, "member", "wal")
	if err := os.RemoveAll(files); err != nil {
		t.Fatal(err)
	}
	newLog(t, dir)
	if uninitialized, err := isUninitialized(dir); err != nil || uninitialized {
		t.Errorf("with keys in the database: %t %v", uninitialized, err)
	}
	if err := os.Remove(filepath.Join(dir, "member", "snap", "db")); err != nil {
		t.Fatal(err)
	}
	if uninitialized, err := isUninitialized(dir); err != nil || !uninitialized {
		t.Errorf("with nothing at all: %t %v", uninitialized, err)
	}
	if err := os.WriteFile(filepath.Join(files, "0.wal.broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if uninitialized, err := isUninitialized(dir); err != nil || uninitialized {
		t.Errorf("with a log that was set aside: %t %v", uninitialized, err)
	}
}

// TestDiscard removes what an interrupted first start left, readable or not,
// and nothing that has keys.
func TestDiscard(t *testing.T) {
	torn := t.TempDir()
	newLog(t, torn)
	if err := os.WriteFile(filepath.Join(torn, "member", "wal", "0000000000000000-0000000000000000.wal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Discard(torn); err != nil {
		t.Fatal(err)
	}
	stop(t, start(t, torn))

	used := t.TempDir()
	member := start(t, used)
	if _, err := member.Client().Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	stop(t, member)
	if err := Discard(used); err != nil {
		t.Fatal(err)
	}
	member = start(t, used)
	if got, err := member.Client().Get(t.Context(), "key"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("data with keys was removed: %v %v", got, err)
	}
	stop(t, member)
}
