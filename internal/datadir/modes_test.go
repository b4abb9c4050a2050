//go:build !windows

package datadir

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestTightenModes: what other users could use is mended and named; what a group
// may use is not named; links are left alone.
func TestTightenModes(t *testing.T) {
	path := t.TempDir()
	elsewhere := t.TempDir() + "/elsewhere.key"
	d := opened(t, path)
	defer func() { _ = d.Close() }()
	for name, mode := range map[string]fs.FileMode{
		"pki/open.key": 0o644, "pki/group.key": 0o640, "pki/closed.key": 0o600, "pki/public.crt": 0o644, "encryption/config.yaml": 0o666,
	} {
		if err := WriteFile(d.Join(name), []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(elsewhere, nil, 0o600), os.Chmod(elsewhere, 0o644), os.Symlink(elsewhere, d.Join("pki", "linked.key")),
		os.Chmod(path, 0o750), os.Chmod(d.Join("pki"), 0o777)); err != nil {
		t.Fatal(err)
	}
	messages := strings.Join(d.TightenModes(), "\n")
	for name, want := range map[string]struct {
		mode  fs.FileMode
		named bool
	}{
		"pki/open.key": {0o600, true}, "pki/group.key": {0o600, false}, "pki/closed.key": {0o600, false}, "pki/public.crt": {0o644, false},
		"encryption/config.yaml": {0o600, true}, "pki": {0o750, true}, ".": {0o750, false},
	} {
		info, err := os.Stat(d.Join(name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want.mode {
			t.Errorf("%s has the mode %04o, want %04o", name, info.Mode().Perm(), want.mode)
		}
		if got := strings.Contains(messages, d.Join(name)+" had"); got != want.named {
			t.Errorf("%s is named: %t, want %t", name, got, want.named)
		}
	}
	if info, err := os.Stat(elsewhere); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("what a link leads to was changed: %v, %v", info, err)
	}
	if again := d.TightenModes(); again != nil {
		t.Errorf("the second time it says %q", again)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 1234, -1); err != nil {
			t.Fatal(err)
		}
		if got := d.TightenModes(); len(got) != 1 || !strings.Contains(got[0], "root runs the server") || !strings.Contains(got[0], "chown -R 1234 "+path) {
			t.Errorf("root in the directory of another user: %q", got)
		}
	}
}
