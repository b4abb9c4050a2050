package testplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
)

const (
	// archivesDir is the directory of restored archives in the user's cache directory.
	archivesDir = "kube-hyper-mini/archives"
	// maxArchives is the number of restored archives that are kept, those that were used
	// last.
	maxArchives = 4
	// partialSuffix is in the names of directories that are being written or removed;
	// those older than partialAge were left by a killed process.
	partialSuffix = ".partial-"
	partialAge    = time.Hour
	// listFile lists the files of a restored archive. It is written last.
	listFile = "files.json"
)

// listed is a file of a restored archive.
type listed struct {
	Name string      `json:"name"` // with slashes
	Mode os.FileMode `json:"mode"`
	Size int64       `json:"size"`
	Sum  uint32      `json:"crc32c"`
}

// fillFromArchive makes the data directory to from an archive. Unpacking takes longer
// than a start: the result is kept in the user's cache directory, by the checksum of the
// archive, and copied from there the next time. A copy that is damaged or missing is
// made again.
func fillFromArchive(ctx context.Context, archive, to string, log *slog.Logger) error {
	kept, err := keptArchive(ctx, archive)
	if err != nil {
		return err
	}
	if kept == "" {
		return restore(ctx, archive, to, log)
	}
	if err = copyListed(ctx, kept, to); err == nil {
		now := time.Now()
		_ = os.Chtimes(kept, now, now) // without it, the copy may be removed early
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the unpacked copy of the archive cannot be used, unpacking again", "copy", kept, "error", err)
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := restore(ctx, archive, to, log); err != nil {
		return err
	}
	if err := keep(ctx, to, kept); err != nil {
		log.Warn("keeping the unpacked copy of the archive failed: the next start unpacks it again", "copy", kept, "error", err)
	}
	return nil
}

// restore unpacks and verifies the archive.
func restore(ctx context.Context, archive, to string, log *slog.Logger) error {
	cfg := config.Default()
	cfg.DataDir = to
	if err := cfg.Complete(); err != nil {
		return err
	}
	etcd.UseSmallLogFiles()
	if _, err := admin.Restore(ctx, cfg, log, archive, backup.Key{}); err != nil {
		return err
	}
	return etcd.WriteChecksum(ctx, filepath.Join(to, "etcd"))
}

// readPiece is the number of bytes that are read before the context is looked at.
const readPiece = 16 << 20

// keptArchive returns where the unpacked archive is kept; empty for a user without a
// cache directory.
func keptArchive(ctx context.Context, archive string) (path string, err error) {
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", nil
	}
	file, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	for err == nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		_, err = io.CopyN(sum, file, readPiece)
	}
	if !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the archive: %w", err)
	}
	// Another release may refuse the archive.
	fmt.Fprintf(sum, "%v", datadir.CurrentStamp())
	return filepath.Join(caches, filepath.FromSlash(archivesDir), hex.EncodeToString(sum.Sum(nil))), nil
}

// copyListed copies the files of the kept archive and verifies them.
func copyListed(ctx context.Context, kept, to string) error {
	data, err := os.ReadFile(filepath.Join(kept, listFile))
	if err != nil {
		return err
	}
	var files []listed
	if err := json.Unmarshal(data, &files); err != nil {
		return fmt.Errorf("read %s: %w", listFile, err)
	}
	for _, want := range files {
		if !filepath.IsLocal(filepath.FromSlash(want.Name)) {
			return fmt.Errorf("%s names %q, which is outside of the copy", listFile, want.Name)
		}
		got, err := copySummed(ctx, kept, to, want.Name, want.Mode)
		if err != nil {
			return err
		}
		if *got != want {
			return fmt.Errorf("%s was changed", want.Name)
		}
	}
	return nil
}

// keep copies the data directory to kept, which appears when it is complete, and removes
// the copies of archives that were not used lately.
func keep(ctx context.Context, data, kept string) error {
	parent := filepath.Dir(kept)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(parent, filepath.Base(kept)+partialSuffix)
	if err != nil {
		return err
	}
	err = copyAndList(ctx, data, partial)
	if err == nil {
		_ = discard(kept) // a damaged copy
		if err = os.Rename(partial, kept); errors.Is(err, fs.ErrExist) {
			err = nil // of another process
		}
	}
	return errors.Join(err, os.RemoveAll(partial), removeOld(parent))
}

// copyAndList copies the data directory and writes the list.
func copyAndList(ctx context.Context, data, to string) error {
	var files []listed
	for _, name := range copied {
		err := filepath.WalkDir(filepath.Join(data, name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			relative, err := filepath.Rel(data, path)
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			file, err := copySummed(ctx, data, to, filepath.ToSlash(relative), info.Mode().Perm())
			if err == nil {
				files = append(files, *file)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	list, err := json.Marshal(files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, listFile), list, 0o600)
}

// copySummed copies one file between directories. Directories in its name are made.
func copySummed(ctx context.Context, from, to, name string, mode os.FileMode) (*listed, error) {
	local := filepath.FromSlash(name)
	if err := os.MkdirAll(filepath.Join(to, filepath.Dir(local)), 0o700); err != nil {
		return nil, err
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	size, err := datadir.CopyFile(ctx, filepath.Join(from, local), filepath.Join(to, local), mode, sum)
	if err != nil {
		return nil, err
	}
	return &listed{name, mode, size, sum.Sum32()}, nil
}

// discard removes a directory of the cache, which disappears at once.
func discard(path string) error {
	// A name of its own: another process may remove the same directory, or have left it.
	away, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+partialSuffix)
	if err != nil {
		return err
	}
	err = os.Rename(path, filepath.Join(away, "removed"))
	return errors.Join(err, os.RemoveAll(away))
}

// removeOld removes the copies that were used longest ago, and what killed processes
// have left.
func removeOld(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	type copy struct {
		path string
		used time.Time
	}
	var copies []copy
	var errs []error
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue // another process has removed it
		}
		path := filepath.Join(parent, entry.Name())
		if !strings.Contains(entry.Name(), partialSuffix) {
			copies = append(copies, copy{path, info.ModTime()})
		} else if time.Since(info.ModTime()) > partialAge {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	slices.SortFunc(copies, func(a, b copy) int { return b.used.Compare(a.used) })
	for _, old := range copies[min(maxArchives, len(copies)):] {
		if err := discard(old.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
