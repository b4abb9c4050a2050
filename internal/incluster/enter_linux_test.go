package incluster

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExisting(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "run", "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run", filepath.Join(root, "var")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, parent, missing string }{
		{root + "/run/secrets", root + "/run/secrets", ""},
		{root + "/run/secrets/a/b", root + "/run/secrets", "a/b"},
		{root + "/var/a", root + "/run", "a"},
		{root + "/etc", root, "etc"},
	} {
		parent, missing, err := existing(c.path)
		if err != nil || parent != c.parent || missing != c.missing {
			t.Errorf("%s: %s and %s, %v; want %s and %s", c.path, parent, missing, err, c.parent, c.missing)
		}
	}
	if _, _, err := existing("/no-such-directory/a"); err == nil || err.Error() != "there is no directory /no-such-directory to mount in: make it" {
		t.Errorf("a directory in / that does not exist: %v", err)
	}
}
