package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// Produce writes a backup that is not encrypted.
type Produce func(ctx context.Context, w io.Writer) error

// fileTime is the format of the time in file names, in UTC.
const fileTime = "20060102T150405Z"

// FileName returns the file name of a backup. Names sort by time.
func FileName(reason string, encryption Encryption, now time.Time) string {
	return fmt.Sprintf("%s-%s%s", reason, now.UTC().Format(fileTime), encryption.Extension())
}

// Latest returns the newest backup with one of the reasons in the directory, and its time,
// according to the file names. Without one it returns an empty path. It skips backups
// that are dated in the future: they were made while the clock was ahead.
func Latest(dir string, reasons ...string) (path string, made time.Time, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", time.Time{}, fmt.Errorf("find the latest backup: %w", err)
	}
	now := time.Now()
	for _, e := range entries {
		for _, reason := range reasons {
			if at, ours := madeAt(e.Name(), reason); ours && at.After(made) && !at.After(now) {
				path, made = filepath.Join(dir, e.Name()), at
			}
		}
	}
	return path, made, nil
}

// madeAt returns the time in a name of [FileName]; ok is false for other names.
func madeAt(name, reason string) (at time.Time, ok bool) {
	rest, ours := strings.CutPrefix(name, reason+"-")
	stamp, _, _ := strings.Cut(rest, ".")
	at, err := time.Parse(fileTime, stamp)
	return at, ours && err == nil && isBackup(name)
}

// Copy produces a backup, verifies it, encrypts it and writes it to w. After an error
// the content of w is incomplete.
func Copy(ctx context.Context, w io.Writer, encryption Encryption, produce Produce) (*Manifest, error) {
	encrypted, err := encryption.Writer(w)
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
		// The reader must get the error of the producer, not the end of the backup.
		_ = writer.CloseWithError(err) // never fails
	}()
	out := &errorWriter{Writer: encrypted}
	m, err := Read(io.TeeReader(reader, out), nil)
	if out.err != nil {
		err = out.err // the backup is not damaged: w cannot be written
	}
	if err != nil {
		cancel(err)
		_ = reader.CloseWithError(err) // never fails
	}
	if cause := <-produced; cause != nil {
		return nil, cause // the cause of the error of Read
	}
	if err = errors.Join(err, encrypted.Close()); err != nil {
		return nil, err
	}
	return m, nil
}

// errorWriter records the error of a write.
type errorWriter struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (w *errorWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// errNameTaken means that the name of a backup is that of another file.
var errNameTaken = fmt.Errorf("%w; choose another name", fs.ErrExist)

// Save writes the backup to path: first to a temporary file, which it syncs,
// then it renames the file. It does not replace an existing file: the
// error is fs.ErrExist.
func Save(ctx context.Context, path string, encryption Encryption, produce Produce) (m *Manifest, err error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("save a backup to %s: %w", path, errNameTaken)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("save a backup: %w", err)
	}
	file, err := datadir.WriteTemporary(dir, unfinished+filepath.Base(path)+"-*", func(file *os.File) (err error) {
		m, err = Copy(ctx, file, encryption, produce)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("save a backup to %s: %w", path, err)
	}
	if err := datadir.RenameNew(file, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = errNameTaken
		}
		return nil, errors.Join(fmt.Errorf("save a backup to %s: %w", path, err), os.Remove(file))
	}
	return m, nil
}

// nameInterval is the time in which the names of [FileName] differ.
const nameInterval = time.Second

// SaveDated is [Save] to the directory, with the name of [FileName], which it returns with
// the directory. It makes the backup again, with another name, if another server has saved
// one there in the same second.
func SaveDated(ctx context.Context, dir, reason string, encryption Encryption, produce Produce) (string, error) {
	for {
		path := filepath.Join(dir, FileName(reason, encryption, time.Now()))
		_, err := Save(ctx, path, encryption, produce)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, errNameTaken) || ctx.Err() != nil {
			return "", err
		}
		reconcile.Pause(ctx, nameInterval)
	}
}

const (
	// unfinished is the prefix of temporary files.
	unfinished = ".unfinished-"
	// abandoned is the age at which a temporary file is removed.
	abandoned = 24 * time.Hour
)

// Listed is a backup in a directory.
type Listed struct {
	Path      string    `json:"path"`
	SizeBytes int64     `json:"sizeBytes"`
	Modified  time.Time `json:"modified"`
	// Manifest is nil if the backup cannot be read; Problem is the reason.
	Manifest *Manifest `json:"manifest,omitempty"`
	Problem  string    `json:"problem,omitempty"`
	// Encrypted is set if it cannot be read because no key for it was given.
	Encrypted bool `json:"encrypted,omitempty"`
}

// List returns the backups in a directory, the oldest first. It reads only their
// manifests; [Read] verifies a backup. A directory that does not exist has none.
func List(dir string, key Key) ([]Listed, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	backups := []Listed{} // JSON has a list also if there are none
	for _, e := range entries {
		if !isBackup(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, fmt.Errorf("list backups: %w", err)
		}
		a := Listed{Path: filepath.Join(dir, e.Name()), SizeBytes: info.Size(), Modified: info.ModTime()}
		if a.Manifest, err = manifestOf(a.Path, key); err != nil {
			a.Problem, a.Encrypted = err.Error(), errors.Is(err, ErrEncrypted)
		}
		backups = append(backups, a)
	}
	slices.SortStableFunc(backups, func(a, b Listed) int { return a.Modified.Compare(b.Modified) })
	return backups, nil
}

func isBackup(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tar.gz.age"))
}

func manifestOf(path string, key Key) (*Manifest, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	content, err := key.Decrypt(file)
	if err != nil {
		return nil, err
	}
	_, m, err := openManifest(content)
	return m, err
}

// Prune removes all but the newest keep backups with the reason, and old temporary files.
// It also keeps the first backup that is not older than since, unless since is zero.
// Backups that are dated in the future are older than all others. It returns the removed
// names. Backups that were renamed stay, and do not count.
func Prune(dir, reason string, keep int, since time.Time) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("remove old backups: %w", err)
	}
	var ahead, backups, remove []string // by name, which is by time
	first, now := "", time.Now()        // first is the first backup since then
	for _, e := range entries {
		made, ours := madeAt(e.Name(), reason)
		switch {
		case strings.HasPrefix(e.Name(), unfinished):
			// A newer one may still be written.
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
				remove = append(remove, e.Name())
			}
		case ours && made.After(now):
			ahead = append(ahead, e.Name())
		case ours:
			if first == "" && !since.IsZero() && !made.Before(since) {
				first = e.Name()
			}
			backups = append(backups, e.Name())
		}
	}
	backups = append(ahead, backups...)
	for _, name := range backups[:max(len(backups)-keep, 0)] {
		if name != first {
			remove = append(remove, name)
		}
	}
	for i, name := range remove {
		// Another server may have removed it.
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return remove[:i], fmt.Errorf("remove an old backup: %w", err)
		}
	}
	return remove, nil
}
