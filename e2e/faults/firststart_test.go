package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestInterruptedFirstStart: after a kill or a power cut in the first start,
// before the server was ready, the next start begins again without help.
func TestInterruptedFirstStart(t *testing.T) {
	for name, cut := range map[string]func(path string) error{
		"kill": func(string) error { return nil },
		// Files that were not synced are empty.
		"power cut": func(path string) error { return os.Truncate(path, 0) },
		"torn":      func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 1<<16)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := killedInFirstStart(t)
			err := filepath.WalkDir(filepath.Join(dir, "etcd"), func(path string, entry os.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				return cut(path)
			})
			if err != nil {
				t.Fatal(err)
			}
			s := harness.StartIn(t, dir)
			s.Kubectl("", "create", "configmap", "first")
			if !strings.Contains(s.Log(), "first start was interrupted") {
				t.Errorf("the log does not say that the start begins again:\n%s", s.Log())
			}
			if code := s.Stop(); code != 0 {
				t.Fatalf("the server ended with %d", code)
			}
			s = harness.StartIn(t, dir)
			s.Kubectl("", "get", "configmap", "first")
		})
	}
}

// killedInFirstStart is a data directory whose first server was killed when its
// etcd and its identity had files and nothing was served.
func killedInFirstStart(t *testing.T) string {
	t.Helper()
	for range 20 {
		dir := filepath.Join(t.TempDir(), "data")
		s := harness.Launch(t, dir)
		deadline := time.Now().Add(harness.Patience)
		for time.Now().Before(deadline) {
			logs, _ := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "*.wal")) // the pattern is well-formed
			if _, err := os.Stat(filepath.Join(dir, "admin.kubeconfig")); err == nil && len(logs) > 0 {
				break
			}
			time.Sleep(100 * time.Microsecond) // until the API servers are being built
		}
		s.Kill()
		stamp := harness.ReadFile(t, filepath.Join(dir, "version.json"))
		if strings.Contains(string(stamp), "unfinished") {
			return dir
		}
	}
	t.Fatal("each of 20 servers had finished its first start when it was killed")
	return ""
}
