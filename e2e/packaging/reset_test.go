package packaging

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func TestResetRemovesTheDataAfterConfirmation(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	foreign := filepath.Join(s.Dir, "docs", "thesis.txt")
	if err := errors.Join(os.Mkdir(filepath.Dir(foreign), 0o700), os.WriteFile(foreign, []byte("years of work"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, code := harness.CLI(t, "backup", "save", "--data-dir", s.Dir); code != 0 {
		t.Fatalf("backup save: %d\n%s", code, out)
	}
	outside := filepath.Join(filepath.Dir(s.Dir), "outside")
	harness.WriteFile(t, outside, "")
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
		for _, said := range []string{"etcd/", "Backups stay (--backups removes them): backups/", "Other files stay: docs/"} {
			if !strings.Contains(out, said) {
				t.Errorf("it asks without a word about %q:\n%s", said, out)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "version.json")); err != nil {
		t.Fatalf("something was removed without a yes: %v", err)
	}
	if out, err := harness.Run(t, "yes\n", harness.Binary(t), "reset", "--data-dir", s.Dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a file that no server has made is gone: %v", err)
	}
	if archives, err := os.ReadDir(filepath.Join(s.Dir, "backups")); err != nil || len(archives) != 1 {
		t.Errorf("the backups are %v, %v", archives, err)
	}
	if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) != 2 {
		t.Errorf("besides it has %v, %v", entries, err)
	}
	if out, code := harness.CLI(t, "server", "--port", "0", "--data-dir", s.Dir); code != 1 || !strings.Contains(out, "docs/") {
		t.Errorf("a server on a directory with other files: exit code %d:\n%s", code, out)
	}
	if err := os.RemoveAll(filepath.Dir(foreign)); err != nil {
		t.Fatal(err)
	}
	s = harness.StartIn(t, s.Dir) // beside the backups
	s.Stop()
	if out, code := harness.CLI(t, "reset", "--yes", "--backups", "--data-dir", s.Dir); code != 0 {
		t.Errorf("with the backups: exit code %d:\n%s", code, out)
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
