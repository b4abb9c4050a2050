package etcd_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// TestOnlyLog: a log in use has its file and the next one, whose room etcd takes in advance.
func TestOnlyLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wal")
	if only, err := etcd.OnlyLog(dir); err != nil || only != "" {
		t.Errorf("without a log: %q %v", only, err)
	}
	log, err := wal.Create(zap.NewNop(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	var entries []os.DirEntry
	for deadline := time.Now().Add(time.Minute); len(entries) < 2; {
		if time.Now().After(deadline) {
			t.Fatal("etcd takes no room for the next file")
		}
		time.Sleep(time.Millisecond) // nothing tells that the file is there
		if entries, err = os.ReadDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	only, err := etcd.OnlyLog(dir)
	if err != nil || !wal.Exist(dir) || only != filepath.Join(dir, "0000000000000000-0000000000000000.wal") {
		t.Errorf("with %v: %q %v", entries, only, err)
	}
	if err := os.WriteFile(only+".broken", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if only, err := etcd.OnlyLog(dir); err != nil || only != "" {
		t.Errorf("with a broken file: %q %v", only, err)
	}
}
