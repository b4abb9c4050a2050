package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// RestoreConfig configures [Restore] and [ImportBundle].
type RestoreConfig struct {
	// Backup is the path of the file. Key decrypts it.
	Backup string
	// Fetch, unless it is nil, puts the backup into the directory and returns its
	// path. Backup names where it is from then.
	Fetch func(dir string) (path string, err error)
	Key   Key
	// DataDir need not exist. Its content is moved to another directory.
	DataDir string
	// Keep are names in DataDir that are not moved. Named are the paths in it that the
	// configuration names; see [datadir.Lock].
	Keep, Named []string
	// Stamp is this release. Backups of newer releases are refused.
	Stamp datadir.Stamp
	// Describe counts the objects in the snapshot again when Snapshot has used it,
	// which may have changed the file. Prefix is that of the API servers' keys.
	Describe bool
	Prefix   string
	// Prepared, unless it is nil, is called with the manifest when the new content is
	// complete, before it replaces the previous one.
	Prepared func(*Manifest)
	// Snapshot makes the directory dir of etcd from the file snapshot. content is the
	// directory with all other files.
	Snapshot func(snapshot, content, dir string) error
}

// Restored is the result of [Restore].
type Restored struct {
	Manifest *Manifest
	// Old is the directory with the previous content; empty if there was none.
	Old string
	// Config is the directory with the configuration in the backup, which the server
	// does not use; empty if the backup has none.
	Config string
}

const (
	incomingDir = "restore.tmp"
	// RestoredConfig is the directory of the saved configuration after a restore.
	RestoredConfig = "restored-config"
	// beforeImport is the directory of the previous content after an import.
	beforeImport = "before-import"
)

// Restore replaces the content of the data directory by that of the backup. No server may
// use the directory (datadir.ErrLocked). Restore reads and verifies the backup and
// makes the new content in a temporary directory. Then it moves the previous content to
// another directory; no file is overwritten or removed. When ctx ends before that, the
// directory stays as it is.
func Restore(ctx context.Context, cfg RestoreConfig) (restored *Restored, err error) {
	if cfg.Fetch == nil {
		if _, err := os.Stat(cfg.Backup); err != nil {
			return nil, fmt.Errorf("restore: %w", err) // before a directory is made
		}
		cfg.Fetch = func(string) (string, error) { return cfg.Backup, nil }
	}
	dir, err := datadir.Lock(cfg.DataDir, cfg.Named...)
	if err != nil {
		return nil, err
	}
	defer func() { err = release(dir, err) }()
	incoming := dir.Join(incomingDir)
	if err := os.RemoveAll(incoming); err != nil { // of an interrupted restore
		return nil, fmt.Errorf("restore: %w", err)
	}
	if err := dir.CheckSwap(incomingDir, cfg.Keep...); err != nil { // before the work
		return nil, fmt.Errorf("restore %s: %w", cfg.Backup, err)
	}
	m, err := fetchAndPrepare(ctx, cfg, dir.Path(), incoming)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("restore %s: %w", cfg.Backup, err), os.RemoveAll(incoming))
	}
	if cfg.Prepared != nil {
		cfg.Prepared(m)
	}
	old := "before-restore-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := dir.Swap(incomingDir, old, cfg.Keep...); err != nil {
		return nil, err
	}
	restored = &Restored{Manifest: m, Old: dir.Join(old)}
	if os.Remove(restored.Old) == nil { // it was empty
		restored.Old = ""
	}
	if _, err := os.Stat(dir.Join(RestoredConfig)); err == nil {
		restored.Config = dir.Join(RestoredConfig)
	}
	return restored, nil
}

// release unlocks a directory. After an error it removes a directory that Lock has made.
func release(dir *datadir.Dir, err error) error {
	if err != nil {
		return errors.Join(err, dir.Abandon())
	}
	return dir.Close()
}

// fetchAndPrepare makes the whole new content, of a backup that is first fetched if it
// is not on this machine.
func fetchAndPrepare(ctx context.Context, cfg RestoreConfig, dataDir, incoming string) (m *Manifest, err error) {
	scratch := SpoolDir(dataDir)
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	file, err := cfg.Fetch(scratch)
	if err != nil {
		return nil, err
	}
	cfg.Backup = file
	return prepare(ctx, cfg, incoming)
}

// prepare makes the new content in incoming.
func prepare(ctx context.Context, cfg RestoreConfig, incoming string) (*Manifest, error) {
	m, err := extract(ctx, cfg, incoming, acceptable)
	if err != nil {
		return nil, err
	}
	snapshot := filepath.Join(incoming, filepath.FromSlash(SnapshotName))
	aside := filepath.Join(incoming, "snapshot.db")
	if err := errors.Join(os.Rename(snapshot, aside), os.Remove(filepath.Dir(snapshot))); err != nil {
		return nil, err
	}
	if err := cfg.Snapshot(aside, incoming, filepath.Join(incoming, "etcd")); err != nil {
		return nil, err
	}
	if cfg.Describe { // the snapshot is not that of the manifest any more
		if m.Snapshot, err = describe(aside, cfg.Prefix); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(aside); err != nil {
		return nil, err
	}
	if err := datadir.WriteStampFile(incoming, m.Stamp); err != nil {
		return nil, err
	}
	return m, nil
}

// extract verifies the backup and writes its files below to, if accept returns no error
// for its manifest.
func extract(ctx context.Context, cfg RestoreConfig, to string, accept func(*Manifest, RestoreConfig) error) (m *Manifest, err error) {
	file, err := os.Open(cfg.Backup)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // not damage
		}
		err = errors.Join(err, file.Close())
	}()
	content, err := cfg.Key.Decrypt(&cancellable{ctx, file})
	if err != nil {
		return nil, err
	}
	checked := false
	return Read(content, func(m *Manifest, f File, r io.Reader) error {
		if !checked {
			if err := accept(m, cfg); err != nil {
				return err
			}
			checked = true
		}
		return extractFile(f, r, to)
	})
}

// cancellable is a reader that fails when its context has ended.
type cancellable struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c *cancellable) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// acceptable returns an error for a backup that cannot be restored here.
func acceptable(m *Manifest, cfg RestoreConfig) error {
	if m.Snapshot == nil {
		return errors.New("it is a bundle, which has certificates and keys but no data: use `kube-hyper-mini bundle import`")
	}
	if m.Stamp.NewerThan(cfg.Stamp) {
		return fmt.Errorf("it was made by kube-hyper-mini %s; this is the older %s: use that release or a newer one", m.Stamp, cfg.Stamp)
	}
	// The snapshot and the restored database exist at the same time.
	return datadir.CheckRoom(cfg.DataDir, 2*m.Snapshot.SizeBytes, cfg.DataDir)
}

func extractFile(f File, r io.Reader, to string) (err error) {
	name := f.Name
	if rest, below := strings.CutPrefix(name, "config/"); below {
		name = RestoredConfig + "/" + rest
	}
	path := filepath.Join(to, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if strings.HasSuffix(name, ".crt") {
		mode = 0o644
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r)
	return errors.Join(err, datadir.Sync(file), file.Close())
}

// ImportBundle writes the certificates and keys of a bundle to a data directory that has
// none, for another server of the same etcd.
func ImportBundle(ctx context.Context, cfg RestoreConfig) (m *Manifest, err error) {
	if _, err := os.Stat(cfg.Backup); err != nil {
		return nil, fmt.Errorf("import: %w", err) // before a directory is made
	}
	dir, err := datadir.Lock(cfg.DataDir, cfg.Named...)
	if err != nil {
		return nil, err
	}
	defer func() { err = release(dir, err) }()
	for _, name := range []string{"pki", "encryption", "etcd"} {
		if _, err := os.Lstat(dir.Join(name)); err == nil {
			return nil, fmt.Errorf("import %s: %s has certificates, keys or data already (%s): choose another directory with --data-dir", cfg.Backup, dir.Path(), name)
		}
	}
	incoming := dir.Join(incomingDir)
	if err := os.RemoveAll(incoming); err != nil { // of an interrupted import
		return nil, fmt.Errorf("import: %w", err)
	}
	m, err = extract(ctx, cfg, incoming, func(m *Manifest, _ RestoreConfig) error {
		if m.Snapshot != nil {
			return errors.New("it is a backup, not a bundle: use `kube-hyper-mini backup restore`")
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("import %s: %w", cfg.Backup, err), os.RemoveAll(incoming))
	}
	if err := dir.Swap(incomingDir, beforeImport); err != nil {
		return nil, err
	}
	_ = os.Remove(dir.Join(beforeImport)) // if it is empty
	return m, nil
}
