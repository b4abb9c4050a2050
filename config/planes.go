package config

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Planes are control planes beside the server's own, in its process and on its port.
type Planes struct {
	// Enabled serves the type ControlPlane, and each object of it at /clusters/NAME.
	Enabled bool `json:"enabled"`
	// SleepAfter is how long a control plane runs without requests.
	SleepAfter Duration `json:"sleepAfter"`
	// MaxAwake is the number of control planes that run at a time.
	MaxAwake int `json:"maxAwake"`
	// Memory and Descriptors (open files) bound what the process takes: above them, control
	// planes are stopped before another one starts; 0 for no bound.
	Memory      resource.Quantity `json:"memory"`
	Descriptors int               `json:"descriptors"`
	// RequestsInFlight is the number of requests to each at a time, without watches.
	RequestsInFlight int `json:"requestsInFlight"`
	// QuotaBackend is the largest size of the database of each.
	QuotaBackend resource.Quantity `json:"quotaBackend"`
	// BackupDir has the backups of each in a directory of its name; empty means planes in
	// backup.dir.
	BackupDir string `json:"backupDir"`
	// IdentityFile decrypts backups and journals, for control planes that begin with one.
	IdentityFile string `json:"identityFile"`
	// Journal is a directory, or s3://BUCKET[/PREFIX] with the endpoint, region and credentials
	// of [Journal], which has the journal of each in a directory; empty for no journals.
	Journal string `json:"journal"`
}

func defaultPlanes() Planes {
	return Planes{SleepAfter: Duration{5 * time.Minute}, MaxAwake: 100, RequestsInFlight: 400,
		QuotaBackend: resource.MustParse("1Gi")}
}

func (c *ServerConfiguration) validatePlanes(fail func(path, format string, args ...any)) {
	planes := c.Planes
	if planes.Enabled && len(c.Etcd.External.Endpoints) > 0 {
		fail("planes.enabled", "needs the embedded etcd: each control plane has its own in %s; unset etcd.external",
			"<dataDir>/planes")
	}
	if planes.SleepAfter.Duration < time.Second {
		fail("planes.sleepAfter", "%s is too short; at least 1s", planes.SleepAfter)
	}
	if planes.MaxAwake < 1 {
		fail("planes.maxAwake", "%d is out of range; at least 1", planes.MaxAwake)
	}
	if planes.Memory.Sign() < 0 || planes.Descriptors < 0 {
		fail("planes.memory", "memory %s and descriptors %d must not be negative; 0 is no bound",
			planes.Memory.String(), planes.Descriptors)
	}
	if planes.RequestsInFlight < 1 {
		fail("planes.requestsInFlight", "%d is out of range; at least 1", planes.RequestsInFlight)
	}
	if planes.QuotaBackend.Value() < MinQuota {
		fail("planes.quotaBackend", "%s is too small; at least 64Mi", planes.QuotaBackend.String())
	}
	if planes.Journal != "" {
		destination := Journal{Destination: planes.Journal}
		if destination.isURL() {
			destination.Endpoint = c.Journal.Endpoint
		}
		destination.validateDestination(c.DataDir, func(path, format string, args ...any) {
			if path == "journal.destination" {
				path = "planes.journal"
			}
			fail(path, format, args...)
		})
	}
}
