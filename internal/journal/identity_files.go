package journal

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// identityFiles detects changed files of the identity.
type identityFiles struct {
	dataDir string
	named   map[string]string // files that the configuration names, by their names in backups
	seen    map[string]fs.FileInfo
	// written is what was seen when the last segment was closed.
	written map[string]fs.FileInfo
}

// newIdentityFiles takes the present files as unchanged.
func newIdentityFiles(dataDir string, named map[string]string) (*identityFiles, error) {
	f := &identityFiles{dataDir: dataDir, named: named}
	var err error
	f.seen, err = f.list()
	f.commit()
	return f, err
}

// commit records that the changes so far are in a segment.
func (f *identityFiles) commit() { f.written = f.seen }

// rollback records that the changes since the last commit were dropped.
func (f *identityFiles) rollback() { f.seen = f.written }

// list returns the files by name. One that the configuration names and that is missing keeps
// its state: it may be replaced just now, and the server uses the content that it has read.
func (f *identityFiles) list() (map[string]fs.FileInfo, error) {
	found := map[string]fs.FileInfo{}
	for _, dir := range backup.IdentityDirs {
		files, err := backup.RegularFiles(filepath.Join(f.dataDir, dir))
		if err != nil {
			return nil, err
		}
		for name, info := range files {
			found[dir+"/"+name] = info
		}
	}
	for name, path := range f.named {
		info, err := os.Stat(path) // it may be a link
		switch {
		case err == nil:
			found[name] = info
		case !isMissing(err):
			return nil, fmt.Errorf("read the identity: %w", err)
		case f.seen[name] != nil:
			found[name] = f.seen[name]
		}
	}
	return found, nil
}

// changed returns the files that have changed since the last call, as they were at one moment.
func (f *identityFiles) changed() (files []File, err error) {
	seen, err := backup.AtOneMoment(f.list, func(found map[string]fs.FileInfo) (err error) {
		files, err = f.read(found)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the identity: %w", err)
	}
	f.seen = seen
	return files, nil
}

// read returns those of the files that differ from what was seen.
func (f *identityFiles) read(found map[string]fs.FileInfo) (files []File, err error) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if before := f.seen[name]; before != nil && backup.IsUnchanged(before, found[name]) {
			continue
		}
		path, named := f.named[name]
		if !named {
			path = filepath.Join(f.dataDir, filepath.FromSlash(name))
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err // of a file that was replaced, unless it is missing for good
		}
		files = append(files, File{Name: name, Content: content})
	}
	for name := range f.seen {
		if found[name] == nil {
			files = append(files, File{Name: name, Removed: true})
		}
	}
	return files, nil
}

// identityFile is the file of [writerID].
const identityFile = "identity.json"

// writerID returns the identity of this server as a writer, which is made at the
// first call.
func writerID(dir string) (string, error) {
	path := filepath.Join(dir, identityFile)
	var file struct {
		ID string `json:"id"`
	}
	if found, err := datadir.ReadJSON(path, &file); err != nil || found && file.ID != "" {
		return file.ID, err
	}
	file.ID = uuid.NewString()
	return file.ID, datadir.WriteJSON(path, file)
}
