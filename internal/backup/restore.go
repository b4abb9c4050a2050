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

// RestoreConfig says which data directory a restore fills.
type RestoreConfig struct {
	// DataDir need not exist. Its content is moved to another directory in it.
	DataDir string
	// Keep are names in DataDir that are not moved. Named are the paths in it that the
	// configuration names; see [datadir.Lock].
	Keep, Named []string
	// Stamp is this release. Backups of newer releases are refused.
	Stamp datadir.Stamp
}

// Restored is what a restore has made.
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
)

// Incoming is new content for a data directory, which replaces the present one as a whole.
// Until [Incoming.End] the directory is locked.
type Incoming struct {
	cfg     RestoreConfig
	dir     *datadir.Dir
	swapped bool // or about to be
}

// Begin locks a data directory that no server uses (datadir.ErrLocked).
func Begin(cfg RestoreConfig) (*Incoming, error) {
	dir, err := datadir.Lock(cfg.DataDir, cfg.Named...)
	if err != nil {
		return nil, err
	}
	i := &Incoming{cfg: cfg, dir: dir}
	err = os.RemoveAll(i.Join()) // of an interrupted restore
	if err == nil {
		err = dir.CheckSwap(incomingDir, cfg.Keep...) // before the work
	}
	if err != nil {
		return nil, errors.Join(err, i.End())
	}
	return i, nil
}

// End unlocks the directory. Unless it was replaced, its content is as it was before, and
// a directory that did not exist is removed.
func (i *Incoming) End() (err error) {
	if !i.swapped {
		err = os.RemoveAll(i.Join())
	}
	return errors.Join(err, i.dir.Abandon())
}

// Join returns the path of a name in the new content.
func (i *Incoming) Join(elem ...string) string {
	return i.dir.Join(append([]string{incomingDir}, elem...)...)
}

// Snapshot is the file with the snapshot of etcd after Extract.
func (i *Incoming) Snapshot() string { return i.Join("snapshot.db") }

// ExtractFile is [Incoming.Extract] for the file of a backup.
func (i *Incoming) ExtractFile(ctx context.Context, path string, key Key) (m *Manifest, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return i.Extract(ctx, file, key)
}

// Extract verifies a backup and writes its files. What an earlier call has written is
// removed.
func (i *Incoming) Extract(ctx context.Context, from io.Reader, key Key) (*Manifest, error) {
	if err := os.RemoveAll(i.Join()); err != nil {
		return nil, err
	}
	checked := false
	return key.Read(ctx, from, func(m *Manifest, f File, r io.Reader) error {
		if !checked {
			if err := i.accept(m); err != nil {
				return err
			}
			checked = true
		}
		return i.write(f, r)
	})
}

// accept returns an error for a backup that cannot be restored here.
func (i *Incoming) accept(m *Manifest) error {
	if m.Stamp.NewerThan(i.cfg.Stamp) {
		return fmt.Errorf("it was made by kube-hyper-mini %s; this is the older %s: use that release or a newer one",
			m.Stamp, i.cfg.Stamp)
	}
	// The snapshot and the restored database exist at the same time.
	return datadir.CheckRoom(i.cfg.DataDir, 2*m.Snapshot.SizeBytes, i.cfg.DataDir)
}

func (i *Incoming) write(f File, r io.Reader) (err error) {
	path := i.Join(filepath.FromSlash(f.Name))
	if rest, below := strings.CutPrefix(f.Name, "config/"); below {
		path = i.Join(RestoredConfig, filepath.FromSlash(rest))
	} else if f.Name == SnapshotName {
		path = i.Snapshot()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if strings.HasSuffix(path, ".crt") {
		mode = 0o644
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r)
	return errors.Join(err, datadir.Sync(file), file.Close())
}

// Replace makes the new content that of the data directory. It moves the previous content to
// another directory; no file is overwritten or removed.
func (i *Incoming) Replace(m *Manifest) (*Restored, error) {
	if err := errors.Join(os.Remove(i.Snapshot()), datadir.WriteStampFile(i.Join(), m.Stamp)); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	old := "before-restore-" + time.Now().UTC().Format("20060102T150405.000Z")
	i.swapped = true
	if err := i.dir.Swap(incomingDir, old, i.cfg.Keep...); err != nil {
		return nil, err
	}
	restored := &Restored{Manifest: m, Old: i.dir.Join(old)}
	if os.Remove(restored.Old) == nil { // it was empty
		restored.Old = ""
	}
	if _, err := os.Stat(i.dir.Join(RestoredConfig)); err == nil {
		restored.Config = i.dir.Join(RestoredConfig)
	}
	return restored, nil
}
