package etcd_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// TestIsFullDisk: the cause of a fatal line of etcd's log is found, and the directory.
func TestIsFullDisk(t *testing.T) {
	dir := t.TempDir()
	cause := &os.PathError{Op: "write", Path: filepath.Join(dir, "data", "db"), Err: syscall.ENOSPC}
	failure := etcd.NewFailure()
	go failure.Logger(zap.NewExample()).Fatal("failed to commit tx", zap.Error(cause))
	<-failure.Failed()
	for name, test := range map[string]struct {
		err  error
		dir  string
		want bool
	}{
		"a fatal line":       {failure.Err(), dir, true},
		"an error":           {cause, dir, true},
		"another directory":  {failure.Err(), filepath.Join(dir, "other"), false},
		"another error":      {errors.New("write " + dir + ": broken pipe"), dir, false},
		"an error elsewhere": {syscall.ENOSPC, dir, false},
	} {
		if got := etcd.IsFullDisk(test.err, test.dir); got != test.want {
			t.Errorf("%s: %t: %v", name, got, test.err)
		}
	}
}
