//go:build !windows

package testplane

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestRemoveWithAHangingEtcd: the wait for the lock of the data directory has a bound. The
// directory is left to the guard.
func TestRemoveWithAHangingEtcd(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		d, err := temporary.Make()
		if err != nil {
			t.Fatal(err)
		}
		used, err := datadir.Lock(d.Data())
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		r := &runner{RunOptions: RunOptions{Err: &errs}, dir: &Directory{Directory: d}}
		began := time.Now()
		if err := r.close(); err != nil {
			t.Error(err)
		}
		// One poll may be under way.
		if took := time.Since(began); took < datadir.RemovalTimeout || took > datadir.RemovalTimeout+time.Second {
			t.Errorf("it took %s, want %s", took, datadir.RemovalTimeout)
		}
		if !strings.Contains(errs.String(), "etcd still uses the temporary directory "+string(d)) {
			t.Errorf("it says %q", errs.String())
		}
		if err := used.Close(); err != nil {
			t.Errorf("the directory was removed: %v", err)
		}
		if err := d.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(string(d)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory is there: %v", err)
		}
	})
}
