package appliance

import (
	"context"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubernetes"
)

// external reports whether etcd runs in other processes.
func (p *process) external() bool { return len(p.config.Etcd.External.Endpoints) > 0 }

// backupBeforeUpgrade makes a backup of the embedded database if another release
// has written it, before the etcd of this release opens it.
func (p *process) backupBeforeUpgrade(ctx context.Context) error {
	if p.external() || !etcd.Exists(p.dir.Join("etcd")) {
		return nil
	}
	return parts.StoppedBackups(p.config, p.dir, p.stamp, p.log).BeforeUpgrade(ctx)
}

// beforeWrites is called when the store can be read, before the first write. It
// returns an error if this release or these keys must not write to the store.
func (s *server) beforeWrites(ctx context.Context) error {
	if err := s.store.CheckRelease(ctx, s.stamp); err != nil {
		return err
	}
	if !s.external() { // which several servers may use, each with a prefix
		if err := kubernetes.CheckPrefix(ctx, s.store.Connection().Client, s.config.Etcd.External.Prefix); err != nil {
			return err
		}
	}
	if err := kubernetes.CheckStored(ctx, s.store.Connection().Client, s.config.Etcd.External.Prefix,
		s.config.APIs.Profile); err != nil {
		return err
	}
	if err := apiserver.CheckGroups(ctx, s.store.Connection().Client, s.config.Etcd.External.Prefix,
		s.extension.API.Groups); err != nil {
		return err
	}
	if err := s.identity.CheckEtcd(ctx, s.store.Connection().Client); err != nil {
		return err
	}
	if s.external() {
		if err := s.backups.BeforeUpgrade(ctx); err != nil {
			return err
		}
	}
	return s.dir.WriteStamp(s.stamp)
}
