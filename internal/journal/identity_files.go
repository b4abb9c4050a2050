package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// The directories of the identity in journals. Those of the certificates and of the local
// keys are in the data directory; configDir has files that the configuration names.
const (
	encryptionDir = "encryption"
	pkiDir        = "pki"
	configDir     = "config"
)

// identityDirs have the files whose changes go into segments.
var identityDirs = []string{encryptionDir, pkiDir, configDir}

// keyDirs have the keys that encrypt resources.
var keyDirs = []string{encryptionDir, configDir}

// identityFiles detects changed files of the identity.
type identityFiles struct {
	dataDir string
	named   map[string]string // the files of configDir, by their names in journals
	seen    map[string]fileState
	// journaled is what was seen when the last segment was closed.
	journaled map[string]fileState
}

// fileState changes when the content of a file does, and is read without the
// content.
type fileState struct {
	size     int64
	modified time.Time
}

// newIdentityFiles takes the present files as unchanged.
func newIdentityFiles(dataDir string, named map[string]string) (*identityFiles, error) {
	f := &identityFiles{dataDir: dataDir, named: named}
	var err error
	f.seen, err = f.scan(identityDirs)
	f.commit()
	return f, err
}

// commit records that the changes so far are in a segment.
func (f *identityFiles) commit() { f.journaled = maps.Clone(f.seen) }

// rollback records that the changes since the last commit were dropped.
func (f *identityFiles) rollback() { f.seen = maps.Clone(f.journaled) }

// scan returns the states of the files in the dirs, by name.
func (f *identityFiles) scan(dirs []string) (map[string]fileState, error) {
	states := map[string]fileState{}
	for _, dir := range dirs {
		if dir == configDir {
			if err := f.scanNamed(states); err != nil {
				return nil, err
			}
			continue
		}
		entries, err := os.ReadDir(filepath.Join(f.dataDir, dir))
		if err != nil && !isMissing(err) {
			return nil, fmt.Errorf("read the identity: %w", err)
		}
		for _, entry := range entries {
			if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
				continue // temporary files begin with a dot
			}
			info, err := datadir.StatFile(filepath.Join(f.dataDir, dir, entry.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read the identity: %w", err)
			}
			states[dir+"/"+entry.Name()] = fileState{info.Size(), info.ModTime()}
		}
	}
	return states, nil
}

// scanNamed adds the states of the files that the configuration names. One that is
// missing keeps its state: it may be replaced just now, and the server uses the content
// that it has read.
func (f *identityFiles) scanNamed(states map[string]fileState) error {
	for name, path := range f.named {
		info, err := os.Stat(path) // it may be a link
		switch {
		case err == nil:
			states[name] = fileState{info.Size(), info.ModTime()}
		case !isMissing(err):
			return fmt.Errorf("read the identity: %w", err)
		default:
			if state, seen := f.seen[name]; seen {
				states[name] = state
			}
		}
	}
	return nil
}

// path returns where the file lies.
func (f *identityFiles) path(name string) string {
	if path, named := f.named[name]; named {
		return path
	}
	return filepath.Join(f.dataDir, filepath.FromSlash(name))
}

// maxScans bounds the attempts to read files as they were at one moment.
const maxScans = 20

// changed returns the files of the dirs that have changed since the last call, as they were
// at one moment. A rotation changes several, and the key that signs must be the one that its
// journal names.
func (f *identityFiles) changed(dirs ...string) ([]File, error) {
	for range maxScans {
		states, err := f.scan(dirs)
		if err != nil {
			return nil, err
		}
		files, err := f.read(states, dirs)
		if err != nil || len(files) == 0 {
			return nil, err
		}
		after, err := f.scan(dirs)
		if err != nil {
			return nil, err
		}
		if maps.Equal(states, after) {
			f.record(files, states)
			return files, nil
		}
	}
	return nil, fmt.Errorf("read the identity: the files of %s change all the time", strings.Join(dirs, ", "))
}

// read returns the files of the dirs whose states differ from those that were seen.
func (f *identityFiles) read(states map[string]fileState, dirs []string) ([]File, error) {
	var files []File
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if f.seen[name] == states[name] {
			continue
		}
		content, err := os.ReadFile(f.path(name))
		if isMissing(err) {
			continue // the next scan finds it
		}
		if err != nil {
			return nil, fmt.Errorf("read the identity: %w", err)
		}
		files = append(files, File{Name: name, Content: content})
	}
	for name := range f.seen {
		dir, _, _ := strings.Cut(name, "/")
		if _, exists := states[name]; !exists && slices.Contains(dirs, dir) {
			files = append(files, File{Name: name, Removed: true})
		}
	}
	return files, nil
}

// record takes the files as seen.
func (f *identityFiles) record(files []File, states map[string]fileState) {
	for _, file := range files {
		if file.Removed {
			delete(f.seen, file.Name)
		} else {
			f.seen[file.Name] = states[file.Name]
		}
	}
}

// writerFile is the content of identity.json in the journal's directory.
type writerFile struct {
	ID string `json:"id"`
}

// writerID returns the identity of this server as a writer, which is made at the
// first call.
func writerID(dir string) (string, error) {
	path := filepath.Join(dir, "identity.json")
	var file writerFile
	if found, err := readJSON(path, &file); err != nil || found && file.ID != "" {
		return file.ID, err
	}
	file.ID = uuid.NewString()
	return file.ID, writeJSON(path, file)
}
