package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// layoutEntry is an entry of the layout.
type layoutEntry struct {
	// pattern of its name, see [path.Match].
	pattern string
	// content has the patterns of what may lie directly in it; nil for a file.
	// A single "**" stands for a directory that is laid out as this one.
	content []string
	// backups means that the directory has backups, which a reset keeps.
	backups bool
}

// beforeRestore is the pattern of the directories with what was there before a restore. Each has
// that only, and not those of earlier restores.
const beforeRestore = "before-restore-*"

// layout has every entry that a server or a command makes in a data directory.
var layout = []layoutEntry{
	{pattern: "lock"},
	{pattern: ephemeralMark},
	{pattern: "version.json"},
	{pattern: "swap.json"},
	{pattern: "used-config.json"},
	{pattern: "admin.kubeconfig"},
	{pattern: temporaryPattern}, // of an interrupted WriteFile
	// "..*" is how kubelet mounts a Secret.
	{pattern: "pki", content: []string{"*.crt", "*.key", "*.pub", "*.pem", "*.json", "*.yaml", "revoked-keys",
		temporaryPattern, "..*"}},
	{pattern: "encryption", content: []string{"*.yaml", "*.json", "*.key", temporaryPattern, "..*"}},
	{pattern: "etcd", content: []string{"member", "seal.json", temporaryPattern}},
	{pattern: "snapshot.tmp", content: []string{"*"}},
	{pattern: "restore.tmp", content: []string{"*"}},
	{pattern: "restored-config", content: []string{"config.yaml", "files"}},
	{pattern: beforeRestore, content: []string{"**"}},
	{pattern: "before-import", content: []string{"**"}},
	{pattern: "journal", content: []string{"*"}},
	{pattern: "restored-from.json"},
	{pattern: "planes", content: []string{"*"}},
	{pattern: "backups", content: []string{"*.tar.gz", "*.tar.gz.age", ".unfinished-*", "planes"}, backups: true},
}

// volumeNames are entries that a file system puts into an empty volume.
var volumeNames = []string{"lost+found", ".DS_Store"}

// layoutEntryOf returns the entry of the layout for a directory entry, or nil.
func layoutEntryOf(entry fs.DirEntry) *layoutEntry {
	for i, p := range layout {
		if matches(p.pattern, entry.Name()) && (p.content != nil) == (entry.IsDir() || p.content != nil && isLink(entry)) {
			return &layout[i]
		}
	}
	return nil
}

func isLink(entry fs.DirEntry) bool { return entry.Type()&fs.ModeSymlink != 0 }

// matches is path.Match; the patterns above are well-formed.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) })
}

// survey reads a data directory. One that does not exist is empty. A directory of the layout that
// holds other files too is listed by its entries.
func survey(dir string) (Removal, error) {
	var found Removal
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	for _, entry := range entries {
		p := layoutEntryOf(entry)
		switch {
		case p == nil && !matchesAny(volumeNames, entry.Name()):
			found.Others = append(found.Others, slashed(entry))
		case p == nil:
		case p.content == nil || isLink(entry) && p.content[0] == "**":
			found.Removed = append(found.Removed, entry.Name())
		default:
			if err := found.add(dir, entry, p); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

// add sorts the content of the directory entry, which is p. A link to a directory is listed before
// its content: another disk may be behind it.
func (c *Removal) add(dir string, entry fs.DirEntry, p *layoutEntry) error {
	name, within := entry.Name(), Removal{}
	if p.content[0] == "**" {
		var err error
		if within, err = survey(filepath.Join(dir, name)); err != nil {
			return err
		}
	} else {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a link to nothing
			return err
		}
		for _, entry := range entries {
			if matchesAny(p.content, entry.Name()) {
				within.Removed = append(within.Removed, slashed(entry))
			} else {
				within.Others = append(within.Others, slashed(entry))
			}
		}
	}
	ours := &c.Removed
	if p.backups {
		ours = &c.Backups
	}
	if len(within.Others)+len(within.Backups) == 0 {
		*ours = append(*ours, slashed(entry))
		if !isLink(entry) {
			return nil
		}
	}
	for _, below := range within.Removed {
		*ours = append(*ours, name+"/"+below)
	}
	for _, below := range within.Backups {
		c.Backups = append(c.Backups, name+"/"+below)
	}
	for _, below := range within.Others {
		c.Others = append(c.Others, name+"/"+below)
	}
	return nil
}

func slashed(entry fs.DirEntry) string {
	if entry.IsDir() {
		return entry.Name() + "/"
	}
	return entry.Name()
}

// refuseOtherFiles returns an error if a directory that no server has used has files that
// are neither of the layout nor named: commands on the data directory would move or
// remove them.
func refuseOtherFiles(dir string, named []string) error {
	for _, mark := range []string{"version.json", swapFile} {
		if _, err := os.Lstat(filepath.Join(dir, mark)); err == nil {
			return nil
		}
	}
	found, err := survey(dir)
	if err != nil {
		return notWritable(dir, err)
	}
	var others []string
	for _, name := range found.Others {
		volume := matchesAny(volumeNames, path.Base(name)) // "etcd" may be on a disk of its own
		if !volume && !containsAny(filepath.Join(dir, filepath.FromSlash(name)), named) {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("%s is %w: it has other files (%s); choose an empty or a new directory with --data-dir", dir,
		ErrNotDataDir, JoinFirst(others))
}

// containsAny reports whether one of the paths is entry or is below it.
func containsAny(entry string, paths []string) bool {
	return slices.ContainsFunc(paths, func(named string) bool {
		relative, err := filepath.Rel(entry, named)
		return err == nil && filepath.IsLocal(relative)
	})
}

// JoinFirst joins names for a message, the first ones where there are many.
func JoinFirst(names []string) string {
	const limit = 8
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}
