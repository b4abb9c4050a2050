package envtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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

// Install makes kube-apiserver, etcd and kubectl in dir, which must be empty or not
// exist: hard links to the program at executable, or copies where links are not
// possible. It returns the absolute path of dir. After an error, dir is as it was.
func Install(dir, executable string) (made string, err error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("make the programs of envtest in %s: %w", dir, err)
	}
	existed, err := empty(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", fmt.Errorf("make the programs of envtest: %w", err)
	}
	var files []string
	defer func() {
		if err == nil {
			return
		}
		for _, file := range files {
			err = errors.Join(err, os.Remove(file))
		}
		if !existed {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	source := executable
	for _, name := range []string{KubeAPIServer, Etcd, Kubectl} {
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		file := filepath.Join(path, name)
		if err := place(source, file); err != nil {
			return "", fmt.Errorf("make %s: %w", file, err)
		}
		files, source = append(files, file), file // a copy is linked to from now on
	}
	return path, nil
}

// empty reports whether the directory exists, and fails unless it is empty.
func empty(path string) (exists bool, err error) {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return true, fmt.Errorf("make the programs of envtest: %w; name a directory that does not exist yet", err)
	case len(entries) > 0:
		return true, fmt.Errorf("make the programs of envtest: %s is not empty, it has %s: name another directory, or remove this one first", path, entries[0].Name())
	}
	return true, nil
}

// place links the file to source, or copies it.
func place(source, file string) error {
	if err := os.Link(source, file); err == nil {
		return nil // else it is on another file system, or another user's
	}
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}
