package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// ErrExists means that an object was not created because its name is taken.
var ErrExists = fs.ErrExist

// Object is an entry of a listing. Name is relative to the destination, with slashes.
type Object struct {
	Name      string
	SizeBytes int64
}

// Store keeps objects under names. Implementations are safe for concurrent use.
type Store interface {
	// Create stores size bytes of body under a new name. It returns ErrExists for a
	// name that is taken, and leaves nothing under the name when it fails.
	Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error
	// Open returns the content of an object; an error that is os.ErrNotExist if
	// there is none. The caller closes it.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the objects whose names begin with prefix and are greater than
	// after, in the order of their names.
	List(ctx context.Context, prefix, after string) ([]Object, error)
	// Folders returns the names directly below prefix that have names below them, in
	// order and without slashes. prefix is empty or ends with a slash.
	Folders(ctx context.Context, prefix string) ([]string, error)
	// Remove removes an object. One that does not exist is no error.
	Remove(ctx context.Context, name string) error
	// String is the destination as the user writes it.
	String() string
}

// Location is where a journal lies.
type Location struct {
	// URL is a path or s3://BUCKET[/PREFIX].
	URL string
	// Endpoint, Region and CredentialsFile are of S3; see [config.Journal].
	Endpoint, Region, CredentialsFile string
}

// OpenBucket opens s3://BUCKET[/PREFIX] for so many concurrent readers. A program that has
// journals in buckets sets it at its start. The operations of the store end when the server
// does not answer.
var OpenBucket func(l Location, readers int) (Store, error)

// Open returns the store at the location. It does not reach it.
func (l Location) Open() (Store, error) {
	switch scheme, _, isURL := strings.Cut(l.URL, "://"); {
	case scheme == "s3" && isURL && OpenBucket == nil:
		return nil, fmt.Errorf("open the journal %s: this program has no client of S3: import "+
			"kube-hyper-mini.io/kube-hyper-mini/controlplane/s3", l.URL)
	case scheme == "s3" && isURL:
		return OpenBucket(l, fetchers)
	case isURL:
		return nil, fmt.Errorf("%q is not a destination of a journal: write a directory or s3://BUCKET/PREFIX", l.URL)
	}
	path, err := filepath.Abs(l.URL)
	if err != nil {
		return nil, fmt.Errorf("use the journal %s: %w", l.URL, err)
	}
	return NewDirectory(path), nil
}

// isMissing reports whether the error means that the store has no such object.
func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }

// partial is the prefix of the names of files that are being written.
const partial = ".partial-"

// Directory stores objects as files of a directory, which is made when the first
// object is stored.
type Directory struct{ path string }

// NewDirectory returns the store in the directory of that absolute path.
func NewDirectory(path string) *Directory { return &Directory{path: path} }

// String implements [Store].
func (d *Directory) String() string { return d.path }

func (d *Directory) file(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

// Create implements [Store]. The file gets its name when its content is on the
// disk, by a link, which fails if the name is taken.
func (d *Directory) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	path := d.file(name)
	if err := d.makeParent(name); err != nil {
		return notStored(d.path, err)
	}
	if _, err := os.Lstat(path); err == nil {
		return ErrExists
	}
	file, err := datadir.WriteTemporary(filepath.Dir(path), partial, func(file *os.File) error {
		written, err := io.Copy(file, backup.WithContext(ctx, body))
		if err == nil && written != size {
			err = fmt.Errorf("%d bytes of %d were written", written, size)
		}
		return err
	})
	if err != nil {
		return notStored(path, err)
	}
	if err = datadir.RenameNew(file, path); err == nil {
		return nil
	}
	if removal := os.Remove(file); !errors.Is(removal, fs.ErrNotExist) { // it may have its name
		err = errors.Join(err, removal)
	}
	if errors.Is(err, ErrExists) {
		return err
	}
	return notStored(path, err)
}

// notStored describes an error of the disk.
func notStored(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w; make room on its disk, or shorten journal.retention", err)
	}
	return fmt.Errorf("journal to %s: %w", path, err)
}

// makeParent makes the directory of an object. That of a chain is made for its
// claim only: on a disk that is not mounted, segments would be stored in the
// directory that the disk is mounted on.
func (d *Directory) makeParent(name string) error {
	parent := filepath.Dir(d.file(name))
	if room := path.Base(path.Dir(name)); room != segmentsDir && room != basesDir && room != endsDir {
		return os.MkdirAll(parent, 0o700)
	}
	err := os.Mkdir(parent, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist: mount its disk (if the chain was removed, a new one begins when the "+
			"spool is full)", filepath.Dir(parent))
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Open implements [Store].
func (d *Directory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	file, err := os.Open(d.file(name))
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	return file, nil
}

// List implements [Store]. A directory that does not exist has no objects.
func (d *Directory) List(ctx context.Context, prefix, after string) ([]Object, error) {
	root := d.file(prefix[:strings.LastIndex(prefix, "/")+1])
	var objects []Object
	err := walk(root, func(path string, entry fs.DirEntry) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		relative, err := filepath.Rel(d.path, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if !strings.HasPrefix(name, prefix) || name <= after {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			objects = append(objects, Object{Name: name, SizeBytes: info.Size()})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the journal %s: %w", d.path, err)
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return objects, nil
}

// walk calls visit with the objects below a directory.
func walk(root string, visit func(path string, entry fs.DirEntry) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since, or never made
			return nil
		case err != nil:
			return err
		case !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), partial):
			return nil
		}
		return visit(path, entry)
	})
}

// Folders implements [Store]. A full disk leaves directories without an object.
func (d *Directory) Folders(_ context.Context, prefix string) ([]string, error) {
	entries, err := os.ReadDir(d.file(prefix))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the journal %s: %w", d.path, err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		used := false
		err := walk(filepath.Join(d.file(prefix), entry.Name()), func(string, fs.DirEntry) error {
			used = true
			return fs.SkipAll
		})
		if err != nil {
			return nil, fmt.Errorf("list the journal %s: %w", d.path, err)
		}
		if used {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Remove implements [Store].
func (d *Directory) Remove(_ context.Context, name string) error {
	if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove from the journal: %w", err)
	}
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if os.Remove(d.file(parent)) != nil {
			break // it has other files
		}
	}
	return nil
}
