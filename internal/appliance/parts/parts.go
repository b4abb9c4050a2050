package parts

import (
	"log/slog"
	"os"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/doctor"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

// Identity is the configuration of the identity. allowNew has a used data directory get the
// authorities and keys that it lacks.
func Identity(cfg *config.ServerConfiguration, dir *datadir.Dir, allowNew bool, log *slog.Logger) identity.Config {
	return identity.Config{
		Serving: cfg.Serving, Kubeconfig: cfg.Kubeconfig, Encryption: cfg.APIServer.Encryption, External: cfg.Etcd.External,
		TokenKeyFiles: cfg.APIServer.Authentication.ServiceAccountKeyFiles, BackupDir: cfg.Backup.Dir, Dir: dir,
		AllowNew: allowNew, Log: log,
	}
}

// Datastore returns the configuration of the store.
func Datastore(cfg *config.ServerConfiguration, dir *datadir.Dir, log *slog.Logger) datastore.Config {
	return datastore.Config{External: cfg.Etcd.External, Embedded: cfg.Etcd.Embedded, Dir: dir, Log: log,
		Verbosity: cfg.Logging.Verbosity}
}

// APIServer are the parts of the configuration that the API server reads.
func APIServer(cfg *config.ServerConfiguration) apiserver.Settings {
	settings := apiserver.Settings{
		APIServer: cfg.APIServer, Serving: cfg.Serving, External: cfg.Etcd.External, Limits: cfg.Limits,
		Profile: cfg.APIs.Profile, Arguments: cfg.Arguments(),
	}
	if len(cfg.Etcd.External.Endpoints) == 0 { // an external etcd has a quota of its own
		settings.NamespaceBytes = cfg.Etcd.Embedded.QuotaBackend.Value() / 100 * int64(cfg.Limits.NamespacePercent)
	}
	return settings
}

// Facts are the fields of a status that do not change while the server runs.
func Facts(cfg *config.ServerConfiguration, stamp datadir.Stamp, url string, started time.Time) admin.Status {
	facts := admin.Status{
		Started: started, PID: os.Getpid(), Server: url, DataDir: cfg.DataDir,
		Versions: admin.Versions{Server: stamp.Version, Kubernetes: stamp.Kubernetes, Etcd: stamp.Etcd, Go: version.Go()},
	}
	if len(cfg.Etcd.External.Endpoints) == 0 {
		facts.Database.QuotaBytes = cfg.Etcd.Embedded.QuotaBackend.Value()
	}
	return facts
}

// Doctor is what the checks of a data directory and its server read of the configuration.
func Doctor(cfg *config.ServerConfiguration) *doctor.Config {
	return &doctor.Config{
		DataDir: cfg.DataDir, Kubeconfig: cfg.Kubeconfig.Path, Serving: cfg.Serving,
		Encryption: cfg.APIServer.Encryption,
		External:   cfg.Etcd.External, Quota: cfg.Etcd.Embedded.QuotaBackend.Value(),
		ServiceEndpoints: cfg.ServiceEndpoints,
		Certificates:     func() ([]pki.Entry, error) { return ListCertificates(cfg) }, OnOneDisk: OnOneDisk(cfg),
	}
}
