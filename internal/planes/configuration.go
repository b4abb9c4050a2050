package planes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// hostConfiguration returns the configuration of the host without a watch cache of ControlPlanes:
// its allocations at each sleep lie between those of control planes, and keep freed memory from
// being returned to the system. 150 control planes leave 139 MB instead of 168 (trial).
func hostConfiguration(host *config.ServerConfiguration) *config.ServerConfiguration {
	const flag = "watch-cache-sizes"
	changed, flags := *host, maps.Clone(host.APIServer.Flags)
	if flags == nil {
		flags = map[string]config.Scalar{}
	}
	if own := Resource.GroupResource().String() + "#"; !strings.Contains(string(flags[flag]), own) {
		flags[flag] = config.Scalar(strings.TrimPrefix(string(flags[flag])+","+own+"0", ","))
	}
	changed.APIServer.Flags = flags
	return &changed
}

// configured returns what configuration reads of a spec.
func (s Spec) configured() Spec {
	return Spec{Profile: s.Profile, Quota: Quota{Bytes: s.Quota.Bytes}, Backup: s.Backup, Journal: s.Journal}
}

// configuration returns that of a control plane of the host, with the directory of its journal.
func configuration(host *config.ServerConfiguration, name, journal string, spec Spec) *config.ServerConfiguration {
	cfg := config.Default()
	cfg.DataDir = Dir(host.DataDir, name)
	cfg.APIServer.FeatureGates, cfg.Limits = host.APIServer.FeatureGates, host.Limits
	cfg.APIServer.Audit.PolicyFile = host.APIServer.Audit.PolicyFile // for what goes to planeAudit
	cfg.APIServer.Encryption = host.APIServer.Encryption
	cfg.APIServer.Flags["profiling"] = "false" // it is that of the process
	cfg.APIServer.Authentication.MaxTokenExpiration = host.APIServer.Authentication.MaxTokenExpiration
	cfg.ControllerManager.Controllers = host.ControllerManager.Controllers
	// References to Services reach what those of the host reach. The address is not listened on:
	// a server on loopback only may call others on loopback.
	cfg.ServiceEndpointPolicy, cfg.Serving.BindAddress = host.ServiceEndpointPolicy, host.Serving.BindAddress
	cfg.Etcd.Embedded.QuotaBackend = host.Planes.QuotaBackend
	if bytes, err := resource.ParseQuantity(spec.Quota.Bytes.Text); err == nil && bytes.Cmp(host.Planes.QuotaBackend) < 0 {
		cfg.Etcd.Embedded.QuotaBackend = bytes
	}
	cfg.APIs.Profile = cmp.Or(spec.Profile, cfg.APIs.Profile)
	cfg.Backup.Dir = BackupDir(host, name)
	cfg.Backup.EncryptTo, cfg.Backup.Endpoint = host.Backup.EncryptTo, host.Backup.Endpoint
	cfg.Backup.Schedule, cfg.Backup.Keep = spec.Backup.Schedule, cmp.Or(spec.Backup.Keep, cfg.Backup.Keep)
	if spec.Journal != nil && host.Planes.Journal != "" {
		cfg.Journal = host.Journal
		cfg.Journal.Destination, cfg.Journal.TakeOver, cfg.Journal.RestoreIfEmpty = JournalLocation(host, journal), "", false
		cfg.Journal.Interval.Duration = JournalInterval(host, spec)
		cfg.Journal.Retention.Duration = durationOf(spec.Journal.Retention, host.Journal.Retention.Duration)
		if !strings.Contains(host.Planes.Journal, "://") {
			cfg.Journal.Endpoint, cfg.Journal.Region, cfg.Journal.CredentialsFile = "", "", ""
		}
	}
	return cfg
}

// publish sets the URL of the token keys in the configuration to that of the host, and returns the file
// of the authorities that clients verify the host with. It waits until the host is ready.
func (p *plane) publish(ctx context.Context, cfg *config.ServerConfiguration) (rootCA string, err error) {
	m := p.manager
	ready := func(context.Context) (bool, error) { return m.config.URL() != "", nil }
	if err := wait.PollUntilContextCancel(ctx, madePoll, true, ready); err != nil {
		return "", fmt.Errorf("wait until the host is ready: %w", context.Cause(ctx))
	}
	cfg.APIServer.Flags["service-account-jwks-uri"] = config.Scalar(URL(m.config.URL(), p.name) + "/openid/v1/jwks")
	host := m.config.Host
	return cmp.Or(host.Serving.CAFile, pki.New(filepath.Join(host.DataDir, "pki"), pki.Names{}).ServerCA()), nil
}

// JournalInterval returns the interval of the journal of a control plane that has one.
func JournalInterval(host *config.ServerConfiguration, spec Spec) time.Duration {
	return durationOf(spec.Journal.Interval, host.Journal.Interval.Duration)
}

// Dir returns the data directory of a control plane of the server with the data directory.
func Dir(dataDir, plane string) string { return filepath.Join(dataDir, "planes", plane) }

// BackupDir returns the directory with the backups of a control plane of the host.
func BackupDir(host *config.ServerConfiguration, plane string) string {
	return filepath.Join(cmp.Or(host.Planes.BackupDir, filepath.Join(host.Backup.Dir, "planes")), plane)
}

// JournalLocation returns the location of a journal below planes.journal.
func JournalLocation(host *config.ServerConfiguration, name string) string {
	if strings.Contains(host.Planes.Journal, "://") {
		return strings.TrimSuffix(host.Planes.Journal, "/") + "/" + name
	}
	return filepath.Join(host.Planes.Journal, name)
}
