package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// maxReads bounds the attempts to read the files of a directory as they were at one moment.
const maxReads = 20

// readFiles returns the contents of the files in a directory, which need not exist, by name,
// as they were at one moment. A rotation changes several, and the key that signs must be the
// one that its journal names.
func readFiles(dir string) (map[string][]byte, error) {
	for range maxReads {
		before, err := regularFiles(dir)
		if err != nil {
			return nil, err
		}
		contents, readErr := readAll(dir, before)
		after, err := regularFiles(dir)
		if err != nil {
			return nil, err
		}
		if maps.EqualFunc(before, after, isUnchanged) {
			return contents, readErr
		}
	}
	return nil, fmt.Errorf("read the content of the backup: the files in %s change all the time: try again", dir)
}

func readAll(dir string, files map[string]fs.FileInfo) (map[string][]byte, error) {
	contents := map[string][]byte{}
	for name := range files {
		var err error
		if contents[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("read the content of the backup: %w", err)
		}
	}
	return contents, nil
}

// isUnchanged reports whether a file was neither written nor replaced between two looks.
func isUnchanged(before, after fs.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

// regularFiles lists a directory, which need not exist, by name.
func regularFiles(dir string) (map[string]fs.FileInfo, error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the content of the backup: %w", err)
	}
	files := map[string]fs.FileInfo{}
	for _, file := range found {
		// A name that begins with a dot is a temporary file.
		if file.IsDir() || strings.HasPrefix(file.Name(), ".") {
			continue
		}
		info, err := datadir.StatFile(filepath.Join(dir, file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was replaced or removed just now
		}
		if err != nil {
			return nil, fmt.Errorf("read the content of the backup: %w", err)
		}
		files[file.Name()] = info
	}
	return files, nil
}
