package appliance

import (
	"context"
	"errors"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// healthy is called for the watchdog of the service manager. With an external etcd
// it checks the API server only: a restart does not repair that etcd.
func (s *server) healthy(ctx context.Context) error {
	if s.external() {
		return s.api.Ping(ctx)
	}
	return s.storage.Health(ctx)
}

// notReady returns why the server is not ready, or nil. A server whose database is
// full is ready: a load balancer must still send it the deletions that make room.
// Status, metrics and the log report that it refuses writes.
func (s *server) notReady() error {
	if s.readySince.Load() != nil {
		return nil
	}
	if applier := s.manifests.Load(); applier != nil {
		if failure := applier.Summary().Error; failure != "" {
			return errors.New("the manifests are not applied: " + failure)
		}
	}
	if reason := s.api.WaitsFor(); reason != "" {
		return errors.New("the server is starting and waits for " + reason)
	}
	return errors.New("the controllers are not running")
}

// status returns the sources of the status that the server reports.
func (s *server) status() admin.StatusSource {
	return admin.StatusSource{
		Facts: parts.Facts(s.config, s.stamp, s.url, s.started), NotReady: s.notReady,
		ReadySince: s.readySince.Load, Controllers: s.controllers.Names,
		Storage: s.storage, Maintenance: s.store.Maintenance(),
		Backups: s.backups.Account, Journal: s.journal, Certificates: s.identity.Certificates().Expiry,
		Warnings:    func() []logging.Warning { return logging.Warnings(s.log) },
		CustomTypes: s.api.CustomTypes, Manifests: s.manifests.Load, Remote: s.api.RemoteServers,
	}
}
