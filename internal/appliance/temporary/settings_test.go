package temporary

import (
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestConfigureKeepsOtherServers: with the configuration of a server in use, a
// run must not touch what that server uses.
func TestConfigureKeepsOtherServers(t *testing.T) {
	cfg := config.Default()
	cfg.Etcd.External.Endpoints = []string{"https://etcd.example:2379"}
	cfg.Etcd.External.CAFile = "/etc/etcd/ca.crt"
	cfg.Kubeconfig.Path = "/root/.kube/config"
	cfg.Journal.Destination, cfg.Journal.TakeOver = "s3://journal", "server"
	cfg.Backup.Dir, cfg.Backup.Schedule = "/var/backups", "@daily"
	cfg.APIServer.Audit.PolicyFile, cfg.APIServer.Audit.LogPath = "/etc/audit-policy.yaml", "/var/log/audit.log"
	Configure(cfg)
	cfg.DataDir = t.TempDir()
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	for name, is := range map[string]struct{ got, want any }{
		"external etcd":         {len(cfg.Etcd.External.Endpoints), 0},
		"authority of etcd":     {cfg.Etcd.External.CAFile, ""},
		"kubeconfig":            {cfg.Kubeconfig.Path, filepath.Join(cfg.DataDir, "admin.kubeconfig")},
		"journal":               {cfg.Journal.Destination + cfg.Journal.TakeOver, ""},
		"backups":               {cfg.Backup.Dir, filepath.Join(cfg.DataDir, "backups")},
		"audit log":             {cfg.APIServer.Audit.LogPath + cfg.APIServer.Audit.PolicyFile, ""},
		"schedule":              {cfg.Backup.Schedule, ""},
		"prefix of the objects": {cfg.Etcd.External.Prefix, "/registry"},
	} {
		if is.got != is.want {
			t.Errorf("%s: got %v, want %v", name, is.got, is.want)
		}
	}
}

// TestConfigureKeepsTheAuditOnStandardOutput: it is no file of another server.
func TestConfigureKeepsTheAuditOnStandardOutput(t *testing.T) {
	cfg := config.Default()
	cfg.APIServer.Audit.PolicyFile, cfg.APIServer.Audit.LogPath = "/etc/audit-policy.yaml", "-"
	Configure(cfg)
	if cfg.APIServer.Audit.PolicyFile == "" || cfg.APIServer.Audit.LogPath != "-" {
		t.Errorf("audit is %+v", cfg.APIServer.Audit)
	}
}
