package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Produce writes an archive that is not sealed.
type Produce func(ctx context.Context, w io.Writer) error

// fileTime is the time in the name of an archive, to the second, in UTC.
const fileTime = "20060102T150405Z"

// FileName of an archive made now for the reason, in the order of time.
func FileName(reason string, seal Seal, now time.Time) string {
	return fmt.Sprintf("%s-%s%s", reason, now.UTC().Format(fileTime), seal.Extension())
}

// Latest finds the archive in the directory that was made last for the reason,
// and when. It believes the names. Without one it returns an empty path.
func Latest(dir, reason string) (path string, made time.Time, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", time.Time{}, fmt.Errorf("find the latest backup: %w", err)
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), reason+"-")
		stamp, _, _ := strings.Cut(rest, ".")
		at, err := time.Parse(fileTime, stamp)
		if ours && err == nil && isArchive(e.Name()) && at.After(made) {
			path, made = filepath.Join(dir, e.Name()), at
		}
	}
	return path, made, nil
}

// Copy produces an archive, verifies it on the way, seals it and writes it to
// w. When it fails, what w has got is of no use.
func Copy(ctx context.Context, w io.Writer, seal Seal, produce Produce) (*Manifest, error) {
	sealed, err := seal.Writer(w)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reader, writer := io.Pipe()
	produced := make(chan error, 1)
	go func() {
		err := produce(ctx, writer)
		produced <- err
		// A producer that fails must not look like one that has ended.
		_ = writer.CloseWithError(err) // never fails
	}()
	m, err := Read(io.TeeReader(reader, sealed), nil)
	if err != nil {
		cancel(err)
		_ = reader.CloseWithError(err) // never fails
	}
	if cause := <-produced; cause != nil {
		return nil, cause // what Read says follows from it
	}
	if err = errors.Join(err, sealed.Close()); err != nil {
		return nil, err
	}
	return m, nil
}

// Save makes the archive path: under another name first, which is read again
// after it has been written, and renamed when all of it is on the disk. A file
// of that name is never replaced.
func Save(ctx context.Context, path string, seal Seal, produce Produce) (m *Manifest, err error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s exists: choose another name", path)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("save a backup: %w", err)
	}
	file, err := os.CreateTemp(dir, unfinished+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return nil, fmt.Errorf("save a backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	written := sha256.New()
	m, err = Copy(ctx, io.MultiWriter(file, written), seal, produce)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("save a backup to %s: %w", path, err)
	}
	if err := compare(file.Name(), written); err != nil {
		return nil, err
	}
	if err := datadir.Rename(file.Name(), path); err != nil {
		return nil, fmt.Errorf("save a backup: %w", err)
	}
	return m, nil
}

const (
	// unfinished begins the names of archives that are being written.
	unfinished = ".unfinished-"
	// abandoned is the age at which nobody writes it any more.
	abandoned = 24 * time.Hour
)

// compare reads the file again.
func compare(path string, written hash.Hash) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("verify the backup: %w", err)
	}
	read := sha256.New()
	_, err = io.Copy(read, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("verify the backup: %w", err)
	}
	if !slices.Equal(read.Sum(nil), written.Sum(nil)) {
		return fmt.Errorf("verify the backup: the disk gives back something else than was written to %s; do not trust it", path)
	}
	return nil
}

// Archive is a file in a directory of archives.
type Archive struct {
	Path      string    `json:"path"`
	SizeBytes int64     `json:"sizeBytes"`
	Modified  time.Time `json:"modified"`
	// Manifest is nil when the archive cannot be read; Problem says why.
	Manifest *Manifest `json:"manifest,omitempty"`
	Problem  string    `json:"problem,omitempty"`
}

// List finds the archives in a directory, the oldest first. It believes their
// manifests; see [Read]. A directory that does not exist has none.
func List(dir string, key Key) ([]Archive, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	var archives []Archive
	for _, e := range entries {
		if !isArchive(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, fmt.Errorf("list backups: %w", err)
		}
		a := Archive{Path: filepath.Join(dir, e.Name()), SizeBytes: info.Size(), Modified: info.ModTime()}
		if a.Manifest, err = manifestOf(a.Path, key); err != nil {
			a.Problem = err.Error()
		}
		archives = append(archives, a)
	}
	slices.SortStableFunc(archives, func(a, b Archive) int { return a.Modified.Compare(b.Modified) })
	return archives, nil
}

func isArchive(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tar.gz.age"))
}

func manifestOf(path string, key Key) (*Manifest, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	content, err := key.Unseal(file)
	if err != nil {
		return nil, err
	}
	return ReadManifest(content)
}

// Prune removes all but the newest keep archives that were made for the
// reason, and what a crash left unfinished. It returns what it removed.
func Prune(dir, reason string, keep int) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("remove old backups: %w", err)
	}
	var old, doomed []string
	for _, e := range entries { // by name, which is by time
		switch {
		case strings.HasPrefix(e.Name(), unfinished):
			// A young one may be somebody's who is writing it.
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
				doomed = append(doomed, e.Name())
			}
		case strings.HasPrefix(e.Name(), reason+"-") && isArchive(e.Name()):
			old = append(old, e.Name())
		}
	}
	if len(old) > keep {
		doomed = append(doomed, old[:len(old)-keep]...)
	}
	for i, name := range doomed {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return doomed[:i], fmt.Errorf("remove an old backup: %w", err)
		}
	}
	return doomed, nil
}
