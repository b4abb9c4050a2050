package temporary

import "kube-hyper-mini.io/kube-hyper-mini/config"

// Configure changes the settings of a server whose data may be lost: etcd does
// not wait for the disk, no backups are made, the database is not defragmented,
// and a stop does not wait for requests. If the configuration is that of another server,
// its etcd, kubeconfig, journal, backups and audit log are not used. Call it before
// Complete.
func Configure(cfg *config.ServerConfiguration) {
	cfg.Etcd.External = config.ExternalEtcd{Endpoints: []string{}, Prefix: cfg.Etcd.External.Prefix}
	cfg.Kubeconfig.Path = ""
	cfg.Journal = config.Default().Journal
	if cfg.APIServer.Audit.LogPath != "-" { // standard output
		cfg.APIServer.Audit = config.Default().APIServer.Audit
	}
	cfg.Backup.Dir = ""
	cfg.Etcd.Embedded.Fsync = false
	cfg.Etcd.Embedded.Defragment.FreePercent = 0
	cfg.Backup.Schedule = ""
	cfg.Backup.BeforeUpgrade = false
	cfg.Serving.StopGrace = config.Duration{}
}
