package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// statusPath is the path of the status.
const statusPath = "/kube-hyper-mini/status"

// Status is what `status -o json` prints and statusPath serves.
type Status struct {
	// Ready means that an authenticated write has succeeded and that the
	// controllers run.
	Ready bool `json:"ready"`
	// Reason is why the server is not ready; empty if it is.
	Reason string `json:"reason,omitempty"`
	// Started is when the process began, ReadySince when it became ready.
	Started    time.Time `json:"started"`
	ReadySince time.Time `json:"readySince,omitzero"`
	// StartSeconds is the time between the two.
	StartSeconds float64 `json:"startSeconds,omitempty"`
	// PID of the server.
	PID int `json:"pid"`
	// Server is the URL of the API.
	Server  string `json:"server"`
	DataDir string `json:"dataDir"`
	// Controllers that run.
	Controllers []string       `json:"controllers,omitempty"`
	Versions    Versions       `json:"versions"`
	Database    Database       `json:"database"`
	Backups     backup.Account `json:"backups"`
	// Memory of the process.
	Memory Memory `json:"memory"`
	// Objects that are stored, those of aggregated API servers not counted; nil
	// before the server is ready.
	Objects *int64 `json:"objects,omitempty"`
	// ObjectsByType counts them by resource and group, as in "deployments.apps"; it
	// leaves out types without objects.
	ObjectsByType map[string]int64 `json:"objectsByType,omitempty"`
	// Remote servers; nil before the server is ready.
	Remote *endpoints.Remote `json:"remote,omitempty"`
	// Warnings and errors that were logged in the last hour.
	Warnings []logging.Warning `json:"warnings,omitempty"`
	// Journal is the state of the journal; nil without one.
	Journal *journal.Account `json:"journal,omitempty"`
	// CustomTypes counts CustomResourceDefinitions; nil before the server is
	// ready.
	CustomTypes *crds.Types `json:"customTypes,omitempty"`
	// Manifests is nil without manifests.dir.
	Manifests *manifests.Summary `json:"manifests,omitempty"`
	// Certificates has the end of validity of each certificate.
	Certificates map[string]time.Time `json:"certificates"`
	// CertificatesError is the error of reading them.
	CertificatesError string `json:"certificatesError,omitempty"`
}

// Versions of this program and of its main components.
type Versions struct {
	Server     string `json:"server"`
	Kubernetes string `json:"kubernetes"`
	Etcd       string `json:"etcd"`
	Go         string `json:"go"`
}

// Database is the state of etcd's database.
type Database struct {
	SizeBytes  int64 `json:"sizeBytes"`
	InUseBytes int64 `json:"inUseBytes"`
	QuotaBytes int64 `json:"quotaBytes,omitempty"`
	Revision   int64 `json:"revision"`
	// NearQuota means that the database takes 80 % of its quota or more.
	NearQuota bool `json:"nearQuota,omitempty"`
	// ReadOnly is why writes are refused and the remedy; empty if they are accepted.
	ReadOnly string `json:"readOnly,omitempty"`
	Error    string `json:"error,omitempty"`
}

// StatusSource has the sources of a [Status]. The functions are called for each request.
type StatusSource struct {
	// Facts has the fields that do not change.
	Facts    Status
	NotReady func() error
	// ReadySince returns when the server became ready; nil before, and during a stop.
	ReadySince  func() *time.Time
	Controllers func() []string
	Storage     *storage.Storage
	// Maintenance of the embedded etcd; nil for an external one.
	Maintenance *maintenance.Keeper
	Backups     func() backup.Account
	// Manifests returns the applier of manifests.dir; nil without that, and before the
	// start of the applier.
	Manifests func() *manifests.Applier
	// Journal writes the journal; nil without one.
	Journal      *journal.Writer
	CustomTypes  func(context.Context) (crds.Types, error)
	Remote       func() (endpoints.Remote, error)
	Warnings     func() []logging.Warning
	Certificates func() (map[string]time.Time, error)
}

// StatusHandler serves the status, with the status code of /readyz.
func StatusHandler(source func() StatusSource) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := source().status(r.Context())
		w.Header().Set("Content-Type", "application/json")
		if !status.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(status) // the client may have disconnected
	})
}

func (s StatusSource) status(ctx context.Context) Status {
	status := s.Facts
	if err := s.NotReady(); err != nil {
		status.Reason = err.Error()
	} else if since := s.ReadySince(); since != nil {
		status.Ready = true
		status.ReadySince = *since
		status.StartSeconds = since.Sub(status.Started).Seconds()
	}
	status.Controllers = s.Controllers()
	if status.Ready {
		if err := s.Storage.Health(ctx); err != nil {
			status.Ready, status.Reason = false, err.Error()
		}
	}
	s.addDatabase(ctx, &status)
	if status.Ready {
		s.addObjects(ctx, &status)
	}
	status.Warnings = s.Warnings()
	status.Memory = readMemory()
	status.Backups = s.Backups()
	if applier := s.Manifests(); applier != nil {
		summary := applier.Summary()
		status.Manifests = &summary
	}
	if s.Journal != nil {
		account := s.Journal.Account(ctx)
		status.Journal = &account
	}
	certificates, err := s.Certificates()
	if err != nil {
		status.CertificatesError = err.Error()
	}
	status.Certificates = certificates
	return status
}

// addObjects adds the numbers of types and objects, and the remote servers. It leaves out
// what cannot be read: the health check reports that.
func (s StatusSource) addObjects(ctx context.Context, status *Status) {
	if types, err := s.CustomTypes(ctx); err == nil {
		status.CustomTypes = &types
	}
	if objects, err := s.Storage.CountAll(ctx); err == nil {
		status.Objects = &objects
	}
	if counts, err := s.Storage.Population().Counts(ctx); err == nil {
		status.ObjectsByType = make(map[string]int64, len(counts))
		for resource, n := range counts {
			status.ObjectsByType[resource.String()] = n
		}
	}
	if remote, err := s.Remote(); err == nil {
		status.Remote = &remote
	}
}

func (s StatusSource) addDatabase(ctx context.Context, status *Status) {
	etcd, err := s.Storage.Status(ctx)
	if etcd != nil {
		status.Database.SizeBytes, status.Database.InUseBytes = etcd.DbSize, etcd.DbSizeInUse
		status.Database.Revision = etcd.Header.Revision
		status.Versions.Etcd = etcd.Version
	}
	if s.Maintenance != nil {
		status.Database.NearQuota, status.Database.ReadOnly = s.Maintenance.NearQuota(), s.Maintenance.Refusal()
	}
	if err != nil && status.Database.ReadOnly == "" {
		status.Database.Error = err.Error()
	}
}
