package etcd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestSnapshotStopped: the snapshot of a member that does not run has all that
// was acknowledged, and the data is as it was, after a stop and after a crash.
func TestSnapshotStopped(t *testing.T) {
	t.Parallel()
	for _, crashed := range []bool{false, true} {
		t.Run(fmt.Sprintf("crashed %v", crashed), func(t *testing.T) {
			running, dir, scratch := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "scratch")
			member := start(t, running)
			for i := range 3 {
				put(t, member, fmt.Sprint("key-", i), "value")
			}
			if !crashed {
				stop(t, member)
			}
			if err := os.CopyFS(dir, os.DirFS(running)); err != nil { // as a crash leaves it
				t.Fatal(err)
			}
			if crashed {
				stop(t, member)
			}
			before := checksums(t, dir)
			stream, err := SnapshotStopped(t.Context(), dir, scratch, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			copied, isCopy := stream.(*copiedMember)
			if isCopy != crashed {
				t.Errorf("the log is applied to a copy: %t", isCopy)
			}
			if isCopy {
				if c := copied.member.etcd.Config(); c.QuotaBackendBytes >= 0 || c.UnsafeNoFsync {
					t.Errorf("the copy has the quota %d, fsync is off: %t; without fsync, the process keeps small log files", c.QuotaBackendBytes, c.UnsafeNoFsync)
				}
			}
			data, err := io.ReadAll(stream)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Close(); err != nil {
				t.Fatal(err)
			}
			if after := checksums(t, dir); fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("the data was changed: %v, %v", before, after)
			}
			if left, err := filepath.Glob(filepath.Join(scratch, "*")); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
			file, restored := filepath.Join(t.TempDir(), "snapshot.db"), filepath.Join(t.TempDir(), "restored")
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := RestoreSnapshot(file, restored, 0, zap.NewNop()); err != nil {
				t.Fatal(err)
			}
			member = start(t, restored)
			for i := range 3 {
				if got, err := member.Client().Get(t.Context(), fmt.Sprint("key-", i)); err != nil || len(got.Kvs) != 1 {
					t.Errorf("key %d: %v %v", i, got, err)
				}
			}
			stop(t, member)
		})
	}
}

func checksums(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestReleases: the newest release that has written is known, and an older one
// refuses.
func TestReleases(t *testing.T) {
	t.Parallel()
	member := start(t, t.TempDir())
	defer func() { stop(t, member) }()
	old := datadir.Stamp{Format: 1, Version: "v1", Kubernetes: "v1.36.0", Etcd: "3.6.1"}
	patch := datadir.Stamp{Format: 1, Version: "v2", Kubernetes: "v1.36.3", Etcd: "3.6.16"}
	next := datadir.Stamp{Format: 1, Version: "v3", Kubernetes: "v1.37.0", Etcd: "3.6.16"}
	far := datadir.Stamp{Format: 1, Version: "v4", Kubernetes: "v1.39.0", Etcd: "3.6.16"}
	check := func(prefix string, release datadir.Stamp) error {
		return CheckRelease(t.Context(), member.Client(), prefix, release)
	}
	for i, step := range []struct {
		release datadir.Stamp
		allowed bool
	}{{old, true}, {patch, true}, {old, true}, {next, true}, {patch, false}, {far, false}, {next, true}} {
		err := check("/registry", step.release)
		if (err == nil) != step.allowed {
			t.Errorf("step %d, %s: %v", i, step.release.Version, err)
		}
		if err == nil {
			err = RecordRelease(t.Context(), member.Client(), "/registry", step.release)
		} else {
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := check("/another", old); err != nil {
		t.Errorf("under another prefix: %v", err)
	}
	put(t, member, "/kube-hyper-mini/release/registry", "garbage")
	if err := check("/registry", next); err == nil {
		t.Error("garbage is a release")
	}
}

// TestStopWhileACopyIsOpened: the wait for etcd has a bound, and the copy is removed.
func TestStopWhileACopyIsOpened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "etcd-1")
		if err := os.MkdirAll(filepath.Join(dir, "member"), 0o700); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := (&copiedMember{dir: dir, closed: make(chan struct{})}).Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != datadir.RemovalTimeout { // of the fake clock
			t.Errorf("it took %s, want %s", took, datadir.RemovalTimeout)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the copy is there: %v", err)
		}
	})
}
