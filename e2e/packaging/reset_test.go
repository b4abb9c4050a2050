package packaging

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func TestResetRemovesTheDataAfterAsking(t *testing.T) {
	s := harness.Start(t)
	outside := filepath.Join(filepath.Dir(s.Dir), "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := harness.CLI(t, "reset", "--yes", "--data-dir", s.Dir); code != 1 || !strings.Contains(out, "in use") {
		t.Errorf("while the server runs: exit code %d:\n%s", code, out)
	}
	s.Kubectl("", "get", "namespaces")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with %d", code)
	}
	for _, answer := range []string{"", "y\n", "no\n"} {
		out, err := harness.Run(t, answer, harness.Binary(t), "reset", "--data-dir", s.Dir)
		if err == nil || !strings.Contains(out, "not confirmed") {
			t.Errorf("answer %q: %v\n%s", answer, err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "version.json")); err != nil {
		t.Fatalf("something was removed without a yes: %v", err)
	}
	if out, err := harness.Run(t, "yes\n", harness.Binary(t), "reset", "--data-dir", s.Dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a file beside it has gone: %v", err)
	}
	if out, code := harness.CLI(t, "reset", "--yes", "--data-dir", s.Dir); code != 0 || !strings.Contains(out, "nothing to remove") {
		t.Errorf("a second time: exit code %d:\n%s", code, out)
	}
}

func TestResetLeavesOtherDirectoriesAlone(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "version.json")
	if err := os.WriteFile(file, []byte(`{"version": "1.0.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{home, file, filepath.Dir(home)} {
		if out, code := harness.CLI(t, "reset", "--yes", "--data-dir", path); code != 1 || !strings.Contains(out, "not a data directory") {
			t.Errorf("reset of %s: exit code %d:\n%s", path, code, out)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
