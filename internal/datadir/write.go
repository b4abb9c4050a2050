package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// unsynced has the directories of DisableSync.
var unsynced sync.Map

// DisableSync makes this package's writes below dir not wait for the disk. It is for servers
// whose data is not kept: their start would wait for some fifty of them.
func DisableSync(dir string) { unsynced.Store(filepath.Clean(dir), true) }

// EnableSync ends [DisableSync].
func EnableSync(dir string) { unsynced.Delete(filepath.Clean(dir)) }

// isSynced reports whether writes to path wait for the disk.
func isSynced(path string) bool {
	for parent := filepath.Clean(path); ; parent = filepath.Dir(parent) {
		if _, found := unsynced.Load(parent); found {
			return false
		}
		if parent == filepath.Dir(parent) {
			return true
		}
	}
}

// temporarySuffix is that of the names of files that [WriteFile] has not renamed yet, see
// [os.CreateTemp]; temporaryPattern matches these names.
const (
	temporarySuffix  = ".tmp-*"
	temporaryPattern = ".*" + temporarySuffix
)

// IsTemporary reports whether a file of that name is what an interrupted [WriteFile] leaves.
func IsTemporary(name string) bool { return matches(temporaryPattern, name) }

// WriteFile replaces the file atomically: readers see the old content or the
// new, and after a crash one of them. The directory is made (0700) when it is
// missing.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	tmp, err := WriteTemporary(dir, "."+filepath.Base(path)+temporarySuffix, func(file *os.File) error {
		_, err := file.Write(data)
		if err == nil && runtime.GOOS != "windows" {
			err = file.Chmod(mode)
		}
		return err
	})
	if err == nil {
		if err = Rename(tmp, path); err != nil {
			err = errors.Join(err, os.Remove(tmp))
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// WriteChanged is [WriteFile] unless the file has the content and the mode: programs that watch
// it get real changes only.
func WriteChanged(path string, data []byte, mode os.FileMode) error {
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, data) {
		if info, err := os.Stat(path); err == nil && HasMode(info, mode) {
			return nil
		}
	}
	return WriteFile(path, data, mode)
}

// WriteTemporary makes a new file in dir, with a name as [os.CreateTemp] makes it and mode 0600,
// has write write its content, and makes that durable. After an error there is no file.
func WriteTemporary(dir, pattern string, write func(*os.File) error) (name string, err error) {
	file, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return "", err
	}
	if err = write(file); err == nil {
		err = Sync(file)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// WriteJSON is [WriteFile] for a value that this package's ReadJSON reads, with mode 0600.
func WriteJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("render %s: %w", path, err)
	}
	return WriteFile(path, append(data, '\n'), 0o600)
}

// ReadJSON reads a file into value, and reports whether it exists.
func ReadJSON(path string, value any) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, value)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

// Rename replaces to with from, in the same directory, durably.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("rename %s: %w", from, err)
	}
	return SyncDir(filepath.Dir(to))
}

// RenameNew is [Rename] to a name that must be free. The error is fs.ErrExist if it is not.
// On file systems without links, a file of another process that gets the name at the same
// moment is replaced.
func RenameNew(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("rename %s: %w", from, err)
	}
	if err != nil {
		if _, err := os.Lstat(to); err == nil {
			return fmt.Errorf("rename %s to %s: %w", from, to, fs.ErrExist)
		}
		return Rename(from, to)
	}
	if err := os.Remove(from); err != nil {
		return fmt.Errorf("rename %s: %w", from, err)
	}
	return SyncDir(filepath.Dir(to))
}

// RemoveFile removes the file, which need not exist, durably.
func RemoveFile(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// Exists reports whether there is a file or a directory at the path.
func Exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", path, err)
	}
	return true, nil
}

// Sync makes the content of a file durable, unless DisableSync was called for its directory.
func Sync(file *os.File) error {
	if !isSynced(file.Name()) {
		return nil
	}
	return file.Sync()
}

// SyncDir makes a rename or a removal in the directory durable. Windows cannot
// open directories for it, and keeps its own order.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" || !isSynced(dir) {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
