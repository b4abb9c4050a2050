package envtest

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Names of the programs.
const (
	KubeAPIServer = "kube-apiserver"
	Etcd          = "etcd"
	Kubectl       = "kubectl"
)

// Program returns the name of the program that a process was started as: one of
// the names above, or the base name of path.
func Program(path string) string {
	return strings.TrimSuffix(filepath.Base(filepath.ToSlash(path)), ".exe")
}

// Install makes kube-apiserver, etcd and kubectl in dir: hard links to the program at
// executable, or copies where links are not possible. dir must be empty, not exist, or have
// nothing but these programs of this or another release, which are then replaced. It
// returns the absolute path of dir. After an error, another call makes what is missing.
func Install(dir, executable string) (made string, err error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("make the programs of envtest in %s: %w", dir, err)
	}
	if err := usable(path, executable); err != nil {
		return "", err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", fmt.Errorf("make the programs of envtest: %w", err)
	}
	source := executable
	for _, name := range fileNames() {
		file := filepath.Join(path, name)
		if same(source, file) {
			continue
		}
		if err := replace(source, file); err != nil {
			return "", fmt.Errorf("make %s: %w", file, err)
		}
		source = file // a copy is linked to from now on
	}
	return path, nil
}

// fileNames returns the names of the programs' files.
func fileNames() []string {
	names := []string{KubeAPIServer, Etcd, Kubectl}
	if runtime.GOOS == "windows" {
		for i := range names {
			names[i] += ".exe"
		}
	}
	return names
}

// usable returns an error for a directory that has other files than those of Install.
func usable(path, executable string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("make the programs of envtest: %w; name a directory that does not exist yet", err)
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !slices.Contains(fileNames(), entry.Name()) ||
			!ours(filepath.Join(path, entry.Name()), executable) {
			return fmt.Errorf("make the programs of envtest: %s is not empty, it has %s: name another "+
				"directory, or remove this one first", path, entry.Name())
		}
	}
	return nil
}

// ours reports whether the file is the program at executable, or another build of it.
func ours(file, executable string) bool {
	if same(executable, file) {
		return true
	}
	self, ok := debug.ReadBuildInfo()
	built, err := buildinfo.ReadFile(file)
	return ok && err == nil && self.Main.Path != "" && built.Path == self.Path && built.Main.Path == self.Main.Path
}

// same reports whether both are links to one file.
func same(a, b string) bool {
	first, errA := os.Stat(a)
	second, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(first, second)
}

// replace removes the file if there is one, and links it to source, or copies source.
func replace(source, file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if os.Link(source, file) == nil {
		return nil // else it is on another file system, or another user's
	}
	_, err := datadir.CopyFile(context.Background(), source, file, 0o755)
	if err != nil {
		_ = os.Remove(file) // a part, or nothing
	}
	return err
}
