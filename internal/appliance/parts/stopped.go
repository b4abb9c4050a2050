package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// The functions of this file work on the data directory of a completed configuration. Those
// that change it return datadir.ErrLocked while a server uses it.

// storeStart bounds the start of a store that a command uses while no server runs.
const storeStart = time.Minute

// withStore starts the store of a data directory that no server uses
// (datadir.ErrLocked if one does), calls use, and stops the store. It refuses the embedded
// database of a release that may not read it afterwards: a server makes a backup first.
func withStore(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger, purpose string,
	use func(context.Context, *datadir.Dir, datastore.Datastore) error) (err error) {
	if err := datadir.RequireUsed(cfg.DataDir); err != nil {
		return fmt.Errorf("nothing to %s: %w", purpose, err) // before a file is written
	}
	dir, err := datadir.Open(cfg.DataDir, datadir.CurrentStamp(), cfg.NamedPaths()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if now := datadir.CurrentStamp(); len(cfg.Etcd.External.Endpoints) == 0 && dir.Previous != nil &&
		now.NewerThan(*dir.Previous) {
		return fmt.Errorf("the data directory %s was written by kube-hyper-mini %s, and this is the newer %s: "+
			"start the server once, which makes a backup before it takes the data over", dir.Path(), dir.Previous, now)
	}
	store := datastore.New(Datastore(cfg, dir, log))
	return lifecycle.While(ctx, lifecycle.Part{Name: "etcd", Run: store.Run}, func(ctx context.Context) error {
		starting, cancel := context.WithTimeout(ctx, storeStart)
		defer cancel()
		if err := store.WaitReady(starting); err != nil {
			return err
		}
		return use(ctx, dir, store)
	})
}

// SaveBackup makes a backup of a data directory that no server uses
// (datadir.ErrLocked if one does). The configuration has been completed. The data
// of an embedded etcd stays as it is.
func SaveBackup(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger, w io.Writer,
	options backup.Options) (err error) {
	if err := datadir.RequireUsed(cfg.DataDir); err != nil {
		return fmt.Errorf("nothing to save: %w", err) // before a file is written
	}
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return withStore(ctx, cfg, log, "save", func(ctx context.Context, dir *datadir.Dir, store datastore.Datastore) error {
			maker := Backups(cfg, dir, *dir.Previous, store, log)
			return errors.Join(maker.Produce(options)(ctx, w), backup.SweepSpool(dir.Path()))
		})
	}
	dir, err := datadir.Open(cfg.DataDir, datadir.CurrentStamp(), cfg.NamedPaths()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if !etcd.Exists(dir.Join("etcd")) {
		return fmt.Errorf("nothing to save: %s has no data of etcd; if the objects are in an external etcd, "+
			"set etcd.external in the configuration", dir.Path())
	}
	maker := StoppedBackups(cfg, dir, *dir.Previous, log)
	return errors.Join(maker.Produce(options)(ctx, w), backup.SweepSpool(dir.Path()))
}

// Defragment defragments the database.
func Defragment(ctx context.Context, cfg *config.ServerConfiguration,
	log *slog.Logger) (done maintenance.Defragmented, err error) {
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return done, admin.ErrExternal
	}
	err = withStore(ctx, cfg, log, "defragment",
		func(ctx context.Context, _ *datadir.Dir, store datastore.Datastore) error {
			done, err = store.Maintenance().Defragment(ctx)
			return err
		})
	return done, err
}

// RotateKey rotates the key that encrypts resources and calls report with its progress.
func RotateKey(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger,
	report func(encryption.Progress) error) error {
	return withStore(ctx, cfg, log, "rotate", func(ctx context.Context, dir *datadir.Dir,
		store datastore.Datastore) error {
		if err := store.Register(ctx); err != nil {
			return err
		}
		return KeyRotator(cfg, dir, store, log).Rotate(ctx, report)
	})
}

// ChangeCertificates applies the change to the certificates and keys.
func ChangeCertificates(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger,
	change admin.CertificateChange) (done *admin.CertificatesChanged, err error) {
	if err := datadir.Removable(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("no certificates to change: %w", err) // before a file is written
	}
	dir, err := datadir.Open(cfg.DataDir, datadir.CurrentStamp())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	store, err := identity.OpenStore(&cfg.Serving, dir.Join("pki"))
	if err != nil {
		return nil, err
	}
	keys := Identity(cfg, dir, false, log)
	if keys.URL, keys.LocalURL, err = kubeconfig.Server(cfg.Kubeconfig.Path); err != nil {
		return nil, err
	}
	external := len(cfg.Etcd.External.Endpoints) > 0
	certificates := &admin.Certificates{
		Identity: identity.Open(keys, store),
		Alone:    func(context.Context) (bool, error) { return !external, nil },
	}
	return certificates.Change(ctx, change)
}

// ListCertificates lists the certificates and keys, whether a server uses them or not.
func ListCertificates(cfg *config.ServerConfiguration) ([]pki.Entry, error) {
	if err := datadir.Removable(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("no certificates to list: %w", err)
	}
	store, err := identity.OpenStore(&cfg.Serving, filepath.Join(cfg.DataDir, "pki"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(store.Cert(pki.EtcdCA)); err == nil {
		store.AddEtcd(pki.Names{})
	}
	return store.List()
}
