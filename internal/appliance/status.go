package appliance

import (
	"encoding/json"
	"net/http"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
)

// statusPath serves the status.
const statusPath = "/kube-hyper-mini/status"

// Status is what `status -o json` prints and statusPath serves.
type Status struct {
	// Ready means that an authenticated write has worked and that the
	// controllers run.
	Ready bool `json:"ready"`
	// Reason says why the server is not ready.
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
	// Components in the order in which they came up.
	Components []lifecycle.Status `json:"components"`
	// Controllers that run.
	Controllers []string `json:"controllers,omitempty"`
	Versions    Versions `json:"versions"`
	Database    Database `json:"database"`
	Backups     Backups  `json:"backups"`
	// Certificates map each certificate to its end.
	Certificates map[string]time.Time `json:"certificates"`
}

// Versions of the product and of what it is made of.
type Versions struct {
	Server     string `json:"server"`
	Kubernetes string `json:"kubernetes"`
	Etcd       string `json:"etcd"`
	Go         string `json:"go"`
}

// Database is etcd's account of itself, in bytes.
type Database struct {
	SizeBytes  int64 `json:"sizeBytes"`
	InUseBytes int64 `json:"inUseBytes"`
	QuotaBytes int64 `json:"quotaBytes,omitempty"`
	Revision   int64 `json:"revision"`
	// NearQuota means that the database takes 80 % of its quota or more.
	NearQuota bool `json:"nearQuota,omitempty"`
	// ReadOnly is why writes are refused, and what to do.
	ReadOnly string `json:"readOnly,omitempty"`
	Error    string `json:"error,omitempty"`
}

// ServeHTTP answers with the status; the status code is that of /readyz.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := s.status(r)
	w.Header().Set("Content-Type", "application/json")
	if !status.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(status); err != nil {
		s.log.Debug("the status was not delivered", "error", err)
	}
}

func (s *server) status(r *http.Request) Status {
	status := s.facts
	status.Components = s.supervisor.Parts()
	if err := s.notReady(); err != nil {
		status.Reason = err.Error()
	} else if since := s.readySince.Load(); since != nil { // else it is being stopped
		status.Ready = true
		status.ReadySince = *since
		status.StartSeconds = status.ReadySince.Sub(status.Started).Seconds()
	}
	if s.controllers != nil {
		status.Controllers = s.controllers.Names()
	}
	if status.Ready {
		if err := s.api.storage.Health(r.Context()); err != nil {
			status.Ready, status.Reason = false, err.Error()
		}
	}
	etcd, err := s.api.storage.Status(r.Context())
	if etcd != nil {
		status.Database.SizeBytes, status.Database.InUseBytes, status.Database.Revision = etcd.DbSize, etcd.DbSizeInUse, etcd.Header.Revision
		status.Versions.Etcd = etcd.Version
	}
	if keeper := s.store.Maintenance(); keeper != nil {
		status.Database.NearQuota, status.Database.ReadOnly = keeper.NearQuota(), keeper.Refusal()
	}
	if err != nil && status.Database.ReadOnly == "" {
		status.Database.Error = err.Error()
	}
	status.Backups = s.archivist.accounts()
	certificates, err := s.identity.store.Expiry()
	if err != nil {
		status.Reason = err.Error()
	}
	status.Certificates = certificates
	return status
}
