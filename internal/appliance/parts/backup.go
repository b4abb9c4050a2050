package parts

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// Restore makes a backup, or a state of a journal, the content of the configuration's data
// directory, as [journal.Restore]. The configuration has been completed.
func Restore(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger,
	restore journal.RestoreConfig) (*backup.Restored, error) {
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return nil, errors.New("the configuration has an external etcd: restore into a data directory of an embedded one, " +
			"and see \"Out of the embedded etcd\" in \"kube-hyper-mini help several-servers\"")
	}
	last, err := lastRevision(ctx, cfg)
	if err != nil {
		log.Warn("the new revision is not above that of the configured journal", "error", err)
	}
	restore.Into, restore.Above = restoreConfig(cfg), last
	restore.Prefix, restore.Log = cfg.Etcd.External.Prefix, logging.Zap(log, cfg.Logging.Verbosity)
	restored, _, err := journal.Restore(ctx, restore)
	return restored, err
}

func restoreConfig(cfg *config.ServerConfiguration) backup.RestoreConfig {
	// The spool of the journal has the identity of its writer. Control planes have backups of their own.
	restore := backup.RestoreConfig{Keep: []string{"journal", "planes"}, DataDir: cfg.DataDir, Named: cfg.NamedPaths(),
		Stamp: datadir.CurrentStamp()}
	// Backups in the data directory are not part of the data.
	if inside, below := strings.CutPrefix(cfg.Backup.Dir, cfg.DataDir+string(filepath.Separator)); below {
		name, _, _ := strings.Cut(inside, string(filepath.Separator))
		restore.Keep = append(restore.Keep, name)
	}
	return restore
}

// OnOneDisk returns the fields of directories for recovery that are on the disk of the data,
// and would be lost with it.
func OnOneDisk(cfg *config.ServerConfiguration) (found []config.Field) {
	if to := cfg.Journal.Destination; to != "" && filepath.IsAbs(to) && datadir.OnSameDisk(cfg.DataDir, to) {
		found = append(found, config.Field{Path: "journal.destination", Value: to})
	}
	if cfg.Backup.Schedule != "" && datadir.OnSameDisk(cfg.DataDir, cfg.Backup.Dir) {
		found = append(found, config.Field{Path: "backup.dir", Value: cfg.Backup.Dir})
	}
	return found
}

// WarnOfDisk warns of one of [OnOneDisk].
func WarnOfDisk(log *slog.Logger, field config.Field) {
	log.Warn(field.Path+" is on the disk of the data, and lost with it: choose a directory on another disk; the systemd "+
		"service needs ReadWritePaths for it (\"kube-hyper-mini help backup\")", "path", field.Value)
}

// StoppedBackups returns what makes backups of an embedded etcd that is not running.
func StoppedBackups(cfg *config.ServerConfiguration, dir *datadir.Dir, stamp datadir.Stamp,
	log *slog.Logger) *backup.Maker {
	data := dir.Join("etcd")
	return backup.NewMaker(backup.MakerConfig{
		Backup: cfg.Backup, Prefix: cfg.Etcd.External.Prefix, Effective: cfg.Marshal, Files: cfg.InputFiles,
		Dir: dir, Stamp: stamp, Log: log,
		Size: func(context.Context) (int64, error) { return datadir.TreeSize(data) },
		Snapshot: func(ctx context.Context) (io.ReadCloser, error) {
			return etcd.SnapshotStopped(ctx, data, backup.SpoolDir(dir.Path()), logging.Zap(log, cfg.Logging.Verbosity))
		},
	})
}

// Backups returns what makes backups of a running store.
func Backups(cfg *config.ServerConfiguration, dir *datadir.Dir, stamp datadir.Stamp, store datastore.Datastore,
	log *slog.Logger) *backup.Maker {
	return backup.NewMaker(backup.MakerConfig{
		Backup: cfg.Backup, Prefix: cfg.Etcd.External.Prefix, Effective: cfg.Marshal, Files: cfg.InputFiles,
		Dir: dir, Stamp: stamp, Log: log,
		Snapshot: store.Snapshot,
		Size: func(ctx context.Context) (int64, error) {
			status, err := store.Connection().Status(ctx)
			if err != nil {
				return 0, err
			}
			return status.DbSize, nil
		},
	})
}
