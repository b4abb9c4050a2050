package envtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// testDirectory makes a directory as envtest does.
func testDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", temporaryPrefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // of a test that has failed
	return dir
}

// TestOwnerOfDirectories: a process whose directories a user has made has no owner.
func TestOwnerOfDirectories(t *testing.T) {
	own, foreign := testDirectory(t), t.TempDir()
	for name, c := range map[string]struct {
		directory string
		others    []string
		owned     bool
		removes   string
	}{
		"envtest's":           {own, nil, true, own},
		"a user's":            {foreign, []string{foreign}, false, ""},
		"one of envtest's":    {foreign, []string{own}, true, ""},
		"below envtest's":     {filepath.Join(own, "data"), nil, false, ""},
		"without a directory": {"", []string{"."}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			owner, err := newOwner(c.directory, "", c.others...)
			if err != nil || (owner != nil) != c.owned {
				t.Fatalf("the owner is %+v (%v)", owner, err)
			}
			if owner == nil {
				return
			}
			if owner.directory != c.removes || owner.ended() {
				t.Errorf("it removes %q (want %q), ended %t", owner.directory, c.removes, owner.ended())
			}
			if err := owner.release(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOwnerEnds: the server ends with its owner, and the directory is removed when the
// server in it has ended too.
func TestOwnerEnds(t *testing.T) {
	dir := testDirectory(t)
	held, err := datadir.TryLock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	owner := &Owner{directory: dir, data: dir, ended: ended.Load, release: func() error { return nil }}
	failed := errors.New("failed")
	err = owner.Run(t.Context(), func(ctx context.Context) error {
		ended.Store(true)
		<-ctx.Done()
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("it was removed too early: %v", err)
		}
		return errors.Join(failed, held.Close())
	})
	if !errors.Is(err, failed) {
		t.Errorf("the server's error is lost: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
}

// TestOwnerStops: a server that its owner stops leaves the directory to the owner.
func TestOwnerStops(t *testing.T) {
	dir := testDirectory(t)
	owner, err := newOwner(dir, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := owner.Run(ctx, func(ctx context.Context) error {
		stop()
		<-ctx.Done()
		return nil
	}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the directory: %v", err)
	}
	var none *Owner
	if err := none.Run(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("without an owner: %v", err)
	}
}
