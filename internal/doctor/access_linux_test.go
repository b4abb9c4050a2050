package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// TestUnreadableDatabase: a file that this user may not read is no damage, for which doctor would
// advise a restore.
func TestUnreadableDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	seal, db := filepath.Join(dir, "etcd", "seal.json"), filepath.Join(dir, "etcd", "member", "snap", "db")
	if err := errors.Join(datadir.WriteFile(db, nil, 0o600), datadir.WriteFile(seal, []byte("{}"), 0o600), os.WriteFile(filepath.Join(dir, "lock"), nil, 0o666),
		datadir.WriteStampFile(dir, datadir.CurrentStamp()), filepath.WalkDir(filepath.Dir(filepath.Dir(dir)), func(path string, _ os.DirEntry, err error) error {
			if err != nil || path == seal {
				return errors.Join(err, os.Chmod(path, 0))
			}
			return os.Chmod(path, 0o777)
		})); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 { // root may read everything; this thread gives that up
		if err := syscall.Setfsuid(1234); err != nil {
			t.Fatal(err)
		}
		defer syscall.Setfsuid(0)
	}
	report, err := Directory(t.Context(), &Config{DataDir: dir, Certificates: func() ([]pki.Entry, error) { return nil, nil }}, false)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Check == "access" && strings.Contains(f.Problem, seal) }) {
		t.Errorf("the file is not reported: %+v", report.Findings)
	}
	if slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Check == "database" }) ||
		!slices.ContainsFunc(report.Skipped, func(s Skipped) bool { return s.Check == "database" && strings.Contains(s.Reason, "permission denied") }) {
		t.Errorf("the database: %+v", report)
	}
}
