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

// maxReads bounds the attempts to read files as they were at one moment.
const maxReads = 20

// AtOneMoment calls read with the files that list returns, again until none has changed
// meanwhile, and returns those files. A rotation changes several, and the key that signs must
// be the one that its record names.
func AtOneMoment(list func() (map[string]fs.FileInfo, error),
	read func(map[string]fs.FileInfo) error) (map[string]fs.FileInfo, error) {
	for range maxReads {
		before, err := list()
		if err != nil {
			return nil, err
		}
		readErr := read(before)
		after, err := list()
		if err != nil {
			return nil, err
		}
		if maps.EqualFunc(before, after, IsUnchanged) {
			return before, readErr
		}
	}
	return nil, errors.New("the files change all the time: try again")
}

// IsUnchanged reports whether a file was neither written nor replaced between two looks.
func IsUnchanged(before, after fs.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

// readFiles returns the contents of the files in a directory, which need not exist, by name,
// as they were at one moment.
func readFiles(dir string) (contents map[string][]byte, err error) {
	_, err = AtOneMoment(func() (map[string]fs.FileInfo, error) { return RegularFiles(dir) },
		func(files map[string]fs.FileInfo) (err error) {
			contents = map[string][]byte{}
			for name := range files {
				if contents[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the content of the backup: %s: %w", dir, err)
	}
	return contents, nil
}

// RegularFiles lists a directory, which need not exist, by name. It leaves out temporary
// files, whose names begin with a dot.
func RegularFiles(dir string) (map[string]fs.FileInfo, error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list certificates and keys: %w", err)
	}
	files := map[string]fs.FileInfo{}
	for _, file := range found {
		if file.IsDir() || strings.HasPrefix(file.Name(), ".") {
			continue
		}
		info, err := datadir.StatFile(filepath.Join(dir, file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was replaced or removed just now
		}
		if err != nil {
			return nil, fmt.Errorf("list certificates and keys: %w", err)
		}
		files[file.Name()] = info
	}
	return files, nil
}
