package backup

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
)

// Complete copies a backup without keys to w and adds the keys from the source, the data
// directory of the same server: the endpoint of a running server returns backups
// without keys. Files that the source lacks stay left out, unless it has others of their
// directory: a rotation may have removed them since. Complete reads all of them before it
// writes.
func Complete(ctx context.Context, r io.Reader, w io.Writer, source Source) error {
	found, _, err := identityEntries(source, false)
	if err != nil {
		return err
	}
	var out *backupWriter
	var added []entry
	_, err = Read(r, func(m *Manifest, f File, content io.Reader) error {
		if out == nil {
			complete := *m
			added = leftOutBy(m, found)
			complete.Files, complete.LeftOut = slices.Clone(m.Files), slices.Clone(m.LeftOut)
			for _, e := range added {
				complete.Files = append(complete.Files, e.File)
				complete.LeftOut = slices.DeleteFunc(complete.LeftOut, func(name string) bool { return unit(name) == unit(e.Name) })
			}
			var err error
			if out, err = newBackupWriter(w, &complete); err != nil {
				return err
			}
		}
		return out.add(ctx, f, content)
	})
	if err != nil {
		return fmt.Errorf("receive the backup: %w", err)
	}
	if out == nil {
		return fmt.Errorf("receive the backup: it has no files")
	}
	for _, e := range added {
		if err := out.addEntry(ctx, e); err != nil {
			return fmt.Errorf("write the backup: %w", err)
		}
	}
	return out.close()
}

// leftOutBy returns the entries of what the manifest lists as left out.
func leftOutBy(m *Manifest, found []entry) []entry {
	return slices.DeleteFunc(slices.Clone(found), func(e entry) bool {
		return !slices.ContainsFunc(m.LeftOut, func(name string) bool { return unit(name) == unit(e.Name) })
	})
}

// unit returns the directory of the keys that the file belongs to, or the file itself: the
// files of such a directory are of one moment.
func unit(name string) string {
	if dir := path.Dir(name); slices.Contains(IdentityDirs, dir) {
		return dir
	}
	return name
}
