package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// The functions of this file work on the data directory of a completed configuration. Those
// that change it return datadir.ErrLocked while a server uses it.

// SaveBackup makes a backup of a data directory that no server uses
// (datadir.ErrLocked if one does). The configuration has been completed. The data
// of the embedded etcd stays as it is.
func SaveBackup(ctx context.Context, cfg *config.ServerConfiguration, log *slog.Logger, w io.Writer,
	options backup.Options) (err error) {
	if err := datadir.RequireUsed(cfg.DataDir); err != nil {
		return fmt.Errorf("nothing to save: %w", err) // before a file is written
	}
	dir, err := datadir.Open(cfg.DataDir, datadir.CurrentStamp(), cfg.NamedPaths()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return errors.New("nothing to save: the objects are in an external etcd: start the server first, or save them with " +
			"etcd's own tools (etcdctl snapshot save)")
	}
	if !etcd.Exists(dir.Join("etcd")) {
		return fmt.Errorf("nothing to save: %s has no data of etcd; if the objects are in an external etcd, "+
			"set etcd.external in the configuration", dir.Path())
	}
	maker := StoppedBackups(cfg, dir, *dir.Previous, log)
	return errors.Join(maker.Produce(options)(ctx, w), backup.SweepSpool(dir.Path()))
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
	address, err := kubeconfig.Server(cfg.Kubeconfig.Path)
	if err != nil {
		return nil, err
	}
	keys.URL, keys.LocalURL = address.Server, address.Local
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
