package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// RestoreConfig says what becomes of an archive.
type RestoreConfig struct {
	// Archive is the file, Key opens it where it is sealed.
	Archive string
	// Fetch, unless it is nil, puts the archive into the directory and returns its
	// path. Archive names where it is from then.
	Fetch func(dir string) (path string, err error)
	Key   Key
	// DataDir need not exist. What is in it is moved aside.
	DataDir string
	// Keep are names in DataDir that stay where they are. Named are the paths
	// in it that the configuration names; see [datadir.Lock].
	Keep, Named []string
	// Stamp is this release, which refuses what a newer one has written.
	Stamp datadir.Stamp
	// Describe counts the objects in the snapshot again when Snapshot has used it,
	// which may have changed the file. Prefix is that of the API servers' keys.
	Describe bool
	Prefix   string
	// Snapshot makes etcd's directory dir from the file snapshot. content is the
	// directory with all other files.
	Snapshot func(snapshot, content, dir string) error
}

// Restored is what a restore has done.
type Restored struct {
	Manifest *Manifest
	// Old is where what had been in the data directory lies; empty if there
	// was nothing.
	Old string
	// Config is the directory with the configuration of the server that was
	// saved; it is not used by itself. Empty if the archive has none.
	Config string
}

const (
	incomingDir = "restore.tmp"
	// restoredConfig is where the saved configuration lies after a restore.
	restoredConfig = "restored-config"
	// beforeImport has what lay in the data directory of a further server.
	beforeImport = "before-import"
)

// Restore makes the archive the content of the data directory, which nobody may
// use meanwhile (datadir.ErrLocked). Everything is read, verified and made in
// a directory of its own before the first file of the old content is moved, and
// nothing of it is overwritten or removed.
func Restore(cfg RestoreConfig) (restored *Restored, err error) {
	if cfg.Fetch == nil {
		if _, err := os.Stat(cfg.Archive); err != nil {
			return nil, fmt.Errorf("restore: %w", err) // before a directory is made
		}
		cfg.Fetch = func(string) (string, error) { return cfg.Archive, nil }
	}
	dir, err := datadir.Lock(cfg.DataDir, cfg.Named...)
	if err != nil {
		return nil, err
	}
	defer func() { err = leave(dir, err) }()
	incoming := dir.Join(incomingDir)
	if err := os.RemoveAll(incoming); err != nil { // of a restore that was killed
		return nil, fmt.Errorf("restore: %w", err)
	}
	m, err := fetchAndPrepare(cfg, dir.Path(), incoming)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("restore %s: %w", cfg.Archive, err), os.RemoveAll(incoming))
	}
	if err := adopt(incoming, dir.Path()); err != nil {
		return nil, errors.Join(fmt.Errorf("restore %s: %w", cfg.Archive, err), os.RemoveAll(incoming))
	}
	old := "before-restore-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := dir.Swap(incomingDir, old, cfg.Keep...); err != nil {
		return nil, err
	}
	restored = &Restored{Manifest: m, Old: dir.Join(old)}
	if os.Remove(restored.Old) == nil { // it was empty
		restored.Old = ""
	}
	if _, err := os.Stat(dir.Join(restoredConfig)); err == nil {
		restored.Config = dir.Join(restoredConfig)
	}
	return restored, nil
}

// leave gives a directory back after a success or a failure.
func leave(dir *datadir.Dir, err error) error {
	if err != nil {
		return errors.Join(err, dir.Abandon())
	}
	return dir.Close()
}

// fetchAndPrepare makes the whole new content, of an archive that may have to be
// brought first.
func fetchAndPrepare(cfg RestoreConfig, dataDir, incoming string) (m *Manifest, err error) {
	scratch := SpoolDir(dataDir)
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	file, err := cfg.Fetch(scratch)
	if err != nil {
		return nil, err
	}
	cfg.Archive = file
	return prepare(cfg, incoming)
}

// prepare makes the whole new content.
func prepare(cfg RestoreConfig, incoming string) (*Manifest, error) {
	m, err := extract(cfg, incoming, acceptable)
	if err != nil {
		return nil, err
	}
	snapshot := filepath.Join(incoming, filepath.FromSlash(snapshotName))
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

// extract verifies the archive and writes its files below to, if its manifest
// is accepted.
func extract(cfg RestoreConfig, to string, accept func(*Manifest, RestoreConfig) error) (m *Manifest, err error) {
	file, err := os.Open(cfg.Archive)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	content, err := cfg.Key.Unseal(file)
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

// acceptable looks at the manifest before anything is written.
func acceptable(m *Manifest, cfg RestoreConfig) error {
	if m.Snapshot == nil {
		return errors.New("it is a bundle, the identity of a server without its data: use it with `kube-hyper-mini bundle import`")
	}
	if m.Stamp.NewerThan(cfg.Stamp) {
		return fmt.Errorf("it was made by kube-hyper-mini %s, and this is %s, which could not read it: use that release or a newer one", m.Stamp, cfg.Stamp)
	}
	// The snapshot and what etcd makes of it are there at once.
	return datadir.Room(cfg.DataDir, 2*m.Snapshot.SizeBytes, cfg.DataDir)
}

func extractFile(f File, r io.Reader, to string) (err error) {
	name := f.Name
	if rest, below := strings.CutPrefix(name, "config/"); below {
		name = restoredConfig + "/" + rest
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
	return errors.Join(err, file.Sync(), file.Close())
}

// ImportBundle puts the identity in the archive into a data directory that has
// none yet, for a further server of the same etcd.
func ImportBundle(cfg RestoreConfig) (m *Manifest, err error) {
	if _, err := os.Stat(cfg.Archive); err != nil {
		return nil, fmt.Errorf("import: %w", err) // before a directory is made
	}
	dir, err := datadir.Lock(cfg.DataDir, cfg.Named...)
	if err != nil {
		return nil, err
	}
	defer func() { err = leave(dir, err) }()
	for _, room := range []string{"pki", "encryption", "etcd"} {
		if _, err := os.Lstat(dir.Join(room)); err == nil {
			return nil, fmt.Errorf("import %s: %s has an identity or data already (%s): choose another directory with --data-dir", cfg.Archive, dir.Path(), room)
		}
	}
	incoming := dir.Join(incomingDir)
	if err := os.RemoveAll(incoming); err != nil { // of one that was killed
		return nil, fmt.Errorf("import: %w", err)
	}
	m, err = extract(cfg, incoming, func(m *Manifest, _ RestoreConfig) error {
		if m.Snapshot != nil {
			return errors.New("it is a backup, not a bundle: use `kube-hyper-mini backup restore`")
		}
		return nil
	})
	if err == nil {
		err = adopt(incoming, dir.Path())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("import %s: %w", cfg.Archive, err), os.RemoveAll(incoming))
	}
	if err := dir.Swap(incomingDir, beforeImport); err != nil {
		return nil, err
	}
	_ = os.Remove(dir.Join(beforeImport)) // empty, where nothing was there before
	return m, nil
}
