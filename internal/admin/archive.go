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

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// backupPath delivers an archive to a POST.
const backupPath = "/kube-hyper-mini/backup"

// storeStart is how long a store may take to be readable when no server runs.
const storeStart = time.Minute

// withStore calls use with the store of a data directory that no server uses
// (datadir.ErrLocked if one does), for as long as that takes.
func withStore(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger, use func(context.Context, *datadir.Dir, datastore.Datastore) error) (err error) {
	dir, err := datadir.Open(cfg.DataDir, datadir.CurrentStamp(), cfg.NamedPaths()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
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
		return fmt.Errorf("nothing to save: %w", err) // before anything is made
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
		return fmt.Errorf("nothing to save: %s has no data of etcd; name the external one in the configuration, if that is where the objects are", dir.Path())
	}
	archiver := NewStoppedArchiver(cfg, dir, *dir.Previous, log)
	return errors.Join(archiver.Produce(options)(ctx, w), backup.SweepSpool(dir.Path()))
}

// ArchiveRunning asks the server that the kubeconfig points to for an archive
// without keys, and adds those in the data directory of the configuration, which
// is that server's, unless they were asked to stay out.
func ArchiveRunning(ctx context.Context, cfg *config.ServerConfiguration, kubeconfig []byte, w io.Writer, options backup.Options) error {
	query := url.Values{backup.ParamPlain: {"true"}}
	response, host, err := ask(ctx, kubeconfig, http.MethodPost, backupPath+"?"+query.Encode(), 0)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read to the end or given up
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
		return fmt.Errorf("%s has no identity yet: start its server first", cfg.DataDir)
	}
	_, err = backup.Write(ctx, w, backup.Source{DataDir: cfg.DataDir, Stamp: *stamp}, backup.Options{Reason: backup.ReasonBundle})
	return err
}

// Restore makes the archive the content of the configuration's data directory.
// The configuration has been completed.
func Restore(cfg *config.ServerConfiguration, log *slog.Logger, archive string, key backup.Key) (*backup.Restored, error) {
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return nil, errors.New("the configuration has an external etcd, which is restored with etcd's own tools: see \"Out of the embedded etcd\" in \"kube-hyper-mini help several-servers\"")
	}
	restore := restoreConfig(cfg, archive, key)
	restore.Snapshot = func(snapshot, _, dir string) error {
		return etcd.RestoreSnapshot(snapshot, dir, logging.Zap(log, cfg.Logging.Verbosity))
	}
	return backup.Restore(restore)
}

// ImportBundle gives the configuration's data directory the identity in the
// bundle. The configuration has been completed.
func ImportBundle(cfg *config.ServerConfiguration, archive string, key backup.Key) (*backup.Manifest, error) {
	return backup.ImportBundle(restoreConfig(cfg, archive, key))
}

func restoreConfig(cfg *config.ServerConfiguration, archive string, key backup.Key) backup.RestoreConfig {
	// The spool of the continuous archive has the identity of its writer.
	restore := backup.RestoreConfig{Keep: []string{"archive"}, Archive: archive, Key: key, DataDir: cfg.DataDir, Named: cfg.NamedPaths(), Stamp: datadir.CurrentStamp()}
	// Archives that lie in the data directory belong to whoever makes them, not
	// to what they are about.
	if inside, below := strings.CutPrefix(cfg.Backup.Dir, cfg.DataDir+string(filepath.Separator)); below {
		name, _, _ := strings.Cut(inside, string(filepath.Separator))
		restore.Keep = append(restore.Keep, name)
	}
	return restore
}

// NewStoppedArchiver returns the archiver of an embedded etcd that does not run.
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

// NewArchiver returns the archiver of a store.
func NewArchiver(cfg *config.ServerConfiguration, dir *datadir.Dir, stamp datadir.Stamp, store datastore.Datastore, log *slog.Logger) *backup.Archiver {
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
