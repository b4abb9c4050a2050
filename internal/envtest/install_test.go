package envtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func executable(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInstallAgain: the programs of this release and of others are replaced, and nothing
// else.
func TestInstallAgain(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := Install(filepath.Join(t.TempDir(), "new", "dir"), self)
	if err != nil {
		t.Fatal(err)
	}
	// Another build of this program has the same build information and another content.
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(t.TempDir(), "newer")
	if err := os.WriteFile(newer, append(content, '!'), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{self, newer, newer} {
		if _, err := Install(dir, program); err != nil {
			t.Fatal(err)
		}
		for _, name := range fileNames() {
			if file := filepath.Join(dir, name); !equal(t, program, file) {
				t.Errorf("%s is not %s", file, program)
			}
		}
	}
	if err := os.Remove(filepath.Join(dir, fileNames()[2])); err != nil { // as after a kill
		t.Fatal(err)
	}
	if _, err := Install(dir, newer); err != nil {
		t.Error(err)
	}
	for _, foreign := range []string{"notes", fileNames()[1]} {
		if err := os.Remove(filepath.Join(dir, foreign)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, foreign), []byte("another program"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := Install(dir, self); err == nil || !strings.Contains(err.Error(), "is not empty, it has "+foreign) {
			t.Errorf("a directory with %s of others was not refused: %v", foreign, err)
		}
		if err := os.Remove(filepath.Join(dir, foreign)); err != nil {
			t.Fatal(err)
		}
		if !equal(t, newer, filepath.Join(dir, fileNames()[0])) {
			t.Errorf("%s was replaced before the refusal", fileNames()[0])
		}
	}
}

// equal reports whether two files have the same content.
func equal(t *testing.T, a, b string) bool {
	t.Helper()
	first, errA := os.ReadFile(a)
	second, errB := os.ReadFile(b)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	return bytes.Equal(first, second)
}

// TestFailedInstall: a directory or a program that cannot be used is an error.
func TestFailedInstall(t *testing.T) {
	parent := t.TempDir()
	file := filepath.Join(parent, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ dir, program string }{
		"a file as directory": {file, executable(t)},
		"below a file":        {filepath.Join(file, "dir"), executable(t)},
		"no program":          {filepath.Join(parent, "dir"), filepath.Join(parent, "none")},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Install(c.dir, c.program); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestProgram(t *testing.T) {
	for path, want := range map[string]string{"/a/etcd": "etcd", "kube-apiserver.exe": "kube-apiserver", "./kube-hyper-mini": "kube-hyper-mini"} {
		if got := Program(path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}
