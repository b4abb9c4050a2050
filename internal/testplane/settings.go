package testplane

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
)

// Configure changes the settings of a server whose data may be lost: etcd does
// not wait for the disk, no backups are made, the database is not defragmented,
// and a stop does not wait for requests. If the configuration is that of another server,
// its etcd, kubeconfig, archive, backups and audit log are not used. Call it before
// Complete.
func Configure(cfg *config.ServerConfiguration) {
	cfg.Etcd.External = config.ExternalEtcd{Endpoints: []string{}, Prefix: cfg.Etcd.External.Prefix}
	cfg.Kubeconfig.Path = ""
	cfg.Archive = config.Default().Archive
	if cfg.APIServer.Audit.LogPath != "-" { // standard output
		cfg.APIServer.Audit = config.Default().APIServer.Audit
	}
	cfg.Backup.Dir = ""
	cfg.Etcd.Embedded.Fsync = false
	cfg.Etcd.Embedded.Defragment.FreePercent = 0
	cfg.Backup.Schedule = ""
	cfg.Backup.BeforeUpgrade = false
	cfg.Serving.StopGrace = metav1.Duration{}
}

// GCPercent is GOGC of a server for tests, unless that is set. With it each of 50 servers
// takes 77 MB instead of 81 MB.
const GCPercent = 50

// StartHeap is the memory, in bytes, up to which the start of a server for tests collects
// no garbage. With it a start takes a tenth less processor time than with
// memory.DefaultHeap.
const StartHeap = 192 << 20
