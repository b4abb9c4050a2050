package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// backupPath is the path that returns an archive for a POST request.
const backupPath = "/kube-hyper-mini/backup"

// storeStart bounds the start of a store that a command uses while no server runs.
const storeStart = time.Minute

// withStore starts the store of a data directory that no server uses
// (datadir.ErrLocked if one does), calls use, and stops the store. It refuses the embedded
// database of a release that may not read it afterwards: a server makes an archive first.
func withStore(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger, use func(context.Context, *datadir.Dir, datastore.Datastore) error) (err error) {
	dir, err := datadir.Open(cfg.DataDir, datadir.CurrentStamp(), cfg.NamedPaths()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if now := datadir.CurrentStamp(); len(cfg.Etcd.External.Endpoints) == 0 && dir.Previous != nil && now.NewerThan(*dir.Previous) {
		return fmt.Errorf("the data directory %s was written by kube-hyper-mini %s, and this is the newer %s: start the server once, which makes a backup before it takes the data over", dir.Path(), dir.Previous, now)
	}
	store := datastore.New(cfg, dir, log)
	return lifecycle.While(ctx, lifecycle.Part{Name: "etcd", Run: store.Run}, func(ctx context.Context) error {
		starting, cancel := context.WithTimeout(ctx, storeStart)
		defer cancel()
		if err := store.WaitReady(starting); err != nil {
			return err
		}
		return use(ctx, dir, store)
	})
}

// ArchiveStopped makes an archive of a data directory that no server uses
// (datadir.ErrLocked if one does). The configuration has been completed. The data
// of an embedded etcd stays as it is.
func ArchiveStopped(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger, w io.Writer, options backup.Options) (err error) {
	if err := datadir.RequireUsed(cfg.DataDir); err != nil {
		return fmt.Errorf("nothing to save: %w", err) // before a file is written
	}
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return withStore(ctx, cfg, log, func(ctx context.Context, dir *datadir.Dir, store datastore.Datastore) error {
			archiver := NewArchiver(cfg, dir, *dir.Previous, store, log)
			return errors.Join(archiver.Produce(options)(ctx, w), backup.SweepSpool(dir.Path()))
		})
	}
	dir, err := datadir.Open(cfg.DataDir, datadir.CurrentStamp(), cfg.NamedPaths()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if !etcd.Exists(dir.Join("etcd")) {
		return fmt.Errorf("nothing to save: %s has no data of etcd; if the objects are in an external etcd, set etcd.external in the configuration", dir.Path())
	}
	archiver := NewStoppedArchiver(cfg, dir, *dir.Previous, log)
	return errors.Join(archiver.Produce(options)(ctx, w), backup.SweepSpool(dir.Path()))
}

// ArchiveRunning requests an archive without keys from the server of the kubeconfig. It
// adds the keys from the data directory of the configuration, which is that server's,
// unless the options leave them out.
func ArchiveRunning(ctx context.Context, cfg *config.ServerConfiguration, kubeconfig []byte, w io.Writer, options backup.Options) error {
	query := url.Values{backup.ParamPlain: {"true"}}
	response, host, err := send(ctx, kubeconfig, http.MethodPost, backupPath+"?"+query.Encode(), 0)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the error does not matter
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return errors.Join(unexpected(host, response, body), err)
	}
	if options.WithoutKeys {
		_, err = io.Copy(w, response.Body)
	} else {
		err = backup.Complete(ctx, response.Body, w, backup.Source{DataDir: cfg.DataDir, ConfigFiles: cfg.InputFiles()})
	}
	if err != nil {
		return fmt.Errorf("receive the archive from %s: %w", host, err)
	}
	return nil
}

// Bundle writes the identity in the configuration's data directory, whether a
// server uses it or not. The configuration has been completed.
func Bundle(ctx context.Context, cfg *config.ServerConfiguration, w io.Writer) error {
	stamp, err := datadir.ReadStamp(cfg.DataDir)
	if err != nil {
		return err
	}
	if stamp == nil || stamp.FirstStart != "" {
		return fmt.Errorf("%s has no certificates and keys: start its server first", cfg.DataDir)
	}
	_, err = backup.Write(ctx, w, backup.Source{DataDir: cfg.DataDir, Stamp: *stamp}, backup.Options{Reason: backup.ReasonBundle})
	return err
}

// Restore replaces the content of the configuration's data directory by that of the
// archive. The configuration has been completed. ctx is as in [backup.Restore]. The new
// revision is also above those of the configured continuous archive.
func Restore(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger, archive string, key backup.Key) (*backup.Restored, error) {
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return nil, errors.New("the configuration has an external etcd: restore that with etcd's own tools, see \"Out of the embedded etcd\" in \"kube-hyper-mini help several-servers\"")
	}
	archived, err := archivedRevision(ctx, cfg)
	if err != nil {
		log.Warn("the new revision is above that of the backup and of this machine's clock only", "error", err)
	}
	restore := restoreConfig(cfg, archive, key)
	restore.Snapshot = func(snapshot, _, dir string) error {
		return etcd.RestoreSnapshot(snapshot, dir, archived, logging.Zap(log, cfg.Logging.Verbosity))
	}
	return backup.Restore(ctx, restore)
}

// ImportBundle writes the certificates and keys of the bundle to the configuration's data
// directory. The configuration has been completed.
func ImportBundle(ctx context.Context, cfg *config.ServerConfiguration, archive string, key backup.Key) (*backup.Manifest, error) {
	return backup.ImportBundle(ctx, restoreConfig(cfg, archive, key))
}

func restoreConfig(cfg *config.ServerConfiguration, archive string, key backup.Key) backup.RestoreConfig {
	// The spool of the continuous archive has the identity of its writer.
	restore := backup.RestoreConfig{Keep: []string{"archive"}, Archive: archive, Key: key, DataDir: cfg.DataDir, Named: cfg.NamedPaths(), Stamp: datadir.CurrentStamp()}
	// Archives in the data directory are not part of the data.
	if inside, below := strings.CutPrefix(cfg.Backup.Dir, cfg.DataDir+string(filepath.Separator)); below {
		name, _, _ := strings.Cut(inside, string(filepath.Separator))
		restore.Keep = append(restore.Keep, name)
	}
	return restore
}

// Together is a directory for recovery that would be lost with the data.
type Together struct{ Field, Path string }

// OnOneDisk returns the directories of the archive and of scheduled backups that are on the
// disk of the data.
func OnOneDisk(cfg *config.ServerConfiguration) (found []Together) {
	if to := cfg.Archive.Destination; to != "" && filepath.IsAbs(to) && datadir.OnSameDisk(cfg.DataDir, to) {
		found = append(found, Together{"archive.destination", to})
	}
	if cfg.Backup.Schedule != "" && datadir.OnSameDisk(cfg.DataDir, cfg.Backup.Dir) {
		found = append(found, Together{"backup.dir", cfg.Backup.Dir})
	}
	return found
}

// NewStoppedArchiver returns the archiver of an embedded etcd that is not running.
func NewStoppedArchiver(cfg *config.ServerConfiguration, dir *datadir.Dir, stamp datadir.Stamp, log *slog.Logger) *backup.Archiver {
	data := dir.Join("etcd")
	return backup.NewArchiver(backup.ArchiverConfig{
		Config: cfg, Dir: dir, Stamp: stamp, Log: log,
		Size: func(context.Context) (int64, error) { return etcd.StoppedSize(data) },
		Snapshot: func(ctx context.Context) (io.ReadCloser, error) {
			return etcd.SnapshotStopped(ctx, data, backup.SpoolDir(dir.Path()), logging.Zap(log, cfg.Logging.Verbosity))
		},
	})
}

// NewArchiver returns the archiver of a running store.
func NewArchiver(cfg *config.ServerConfiguration, dir *datadir.Dir, stamp datadir.Stamp, store datastore.Datastore, log *slog.Logger) *backup.Archiver {
	for _, together := range OnOneDisk(cfg) {
		log.Warn(together.Field+" is on the disk of the data, and lost with it: choose a directory on another disk, or s3://BUCKET", "path", together.Path)
	}
	return backup.NewArchiver(backup.ArchiverConfig{
		Config: cfg, Dir: dir, Stamp: stamp, Snapshot: store.Snapshot, Log: log,
		Size: func(ctx context.Context) (int64, error) {
			status, err := store.Connection().Status(ctx)
			if err != nil {
				return 0, err
			}
			return status.DbSize, nil
		},
	})
}
