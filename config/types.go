package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion and Kind identify the configuration file.
const (
	APIVersion = "kube-hyper-mini.io/v1alpha1"
	Kind       = "ServerConfiguration"
)

// ServerConfiguration is the whole configuration of one server. Empty paths
// stand for the places that [ServerConfiguration.Complete] derives from the
// data directory.
type ServerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// DataDir holds everything that outlives the process. Empty means
	// /var/lib/kube-hyper-mini for root and $XDG_DATA_HOME/kube-hyper-mini
	// for other users.
	DataDir string `json:"dataDir"`

	Serving           Serving           `json:"serving"`
	Kubeconfig        Kubeconfig        `json:"kubeconfig"`
	Etcd              Etcd              `json:"etcd"`
	APIs              APIs              `json:"apis"`
	APIServer         APIServer         `json:"apiServer"`
	ControllerManager ControllerManager `json:"controllerManager"`
	// ServiceEndpoints are the servers behind `service:` references.
	ServiceEndpoints []ServiceEndpoint `json:"serviceEndpoints"`
	// ServiceEndpointPolicy bounds the targets of ServiceEndpoint objects.
	ServiceEndpointPolicy ServiceEndpointPolicy `json:"serviceEndpointPolicy"`
	Manifests             Manifests             `json:"manifests"`
	Backup                Backup                `json:"backup"`
	Journal               Journal               `json:"journal"`
	Limits                Limits                `json:"limits"`
	Planes                Planes                `json:"planes"`
	Logging               Logging               `json:"logging"`

	// file is what it was loaded from; empty for the defaults.
	file      string
	arguments []Argument
	record    []byte // see UsedContent
	former    bool   // a section has its former name; see Note
}

// Serving configures the address of the API and its names.
type Serving struct {
	// BindAddress is the IP address to listen on.
	BindAddress string `json:"bindAddress"`
	// Port to listen on; 0 takes a free one, which the kubeconfig then has.
	Port int `json:"port"`
	// ExternalHost is the host name or address that clients use; it goes into
	// the kubeconfig and the serving certificate. Empty means BindAddress, or
	// this host's name when BindAddress is a wildcard.
	ExternalHost string `json:"externalHost"`
	// ExternalURL is the URL that clients use where its port is not Port, as with a
	// mapped port of a container; https://host:port. It goes into the kubeconfig, and
	// its host into the serving certificate; ExternalHost is that host then.
	ExternalURL string `json:"externalURL"`
	// ExtraSANs are further DNS names and IP addresses for the serving
	// certificate.
	ExtraSANs []string `json:"extraSANs"`
	// CertFile and KeyFile are served instead of a certificate that the server
	// makes (--tls-cert-file, --tls-private-key-file); reloaded on change.
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	// CAFile has the authorities that clients verify CertFile with. Empty means
	// <dataDir>/pki/server-ca.crt.
	CAFile string `json:"caFile"`
	// StopGrace is how long a stop waits for requests in flight. The server then
	// answers the remaining ones with an error.
	StopGrace Duration `json:"stopGrace"`
}

// Kubeconfig configures the file with the administrator's kubeconfig.
type Kubeconfig struct {
	// Path of the file; empty means <dataDir>/admin.kubeconfig.
	Path string `json:"path"`
	// Mode of the file in octal.
	Mode FileMode `json:"mode"`
}

// Etcd configures the store. External is used when it has endpoints, the
// embedded member otherwise.
type Etcd struct {
	Embedded EmbeddedEtcd `json:"embedded"`
	External ExternalEtcd `json:"external"`
}

// EmbeddedEtcd configures the etcd member inside the process.
type EmbeddedEtcd struct {
	// QuotaBackend is the database size at which the server refuses writes other
	// than deletions. etcd's own quota (--quota-backend-bytes, and the metric
	// etcd_server_quota_backend_bytes) is larger: 1.1 times this value plus 64 MiB.
	QuotaBackend resource.Quantity `json:"quotaBackend"`
	// Fsync means that a write is on disk before it is acknowledged (etcd: the opposite
	// of --unsafe-no-fsync).
	Fsync bool `json:"fsync"`
	// Listen is the host:port that the member serves on when it runs in a
	// process of its own. In the server it listens nowhere.
	Listen string `json:"listen"`
	// Defragment configures when the database is rewritten without its free pages.
	Defragment Defragment `json:"defragment"`
}

// ExternalEtcd points to an etcd cluster that is run elsewhere. The names are
// those of kube-apiserver's --etcd-* flags.
type ExternalEtcd struct {
	Endpoints []string `json:"endpoints"`
	CAFile    string   `json:"caFile"`
	CertFile  string   `json:"certFile"`
	KeyFile   string   `json:"keyFile"`
	// Prefix of all keys.
	Prefix string `json:"prefix"`
}

// APIs selects the built-in types that are served.
type APIs struct {
	// Profile is [ProfileGeneric] or [ProfileKubernetes].
	Profile string `json:"profile"`
}

// Profiles of the built-in types.
const (
	// ProfileGeneric has the types that need no nodes and no workloads.
	ProfileGeneric = "generic"
	// ProfileKubernetes has all types of kube-apiserver, as data; no controller or kubelet runs them.
	ProfileKubernetes = "kubernetes"
)

// APIServer configures the chain of API servers. Fields that have an upstream
// flag carry its name and its syntax.
type APIServer struct {
	// RuntimeConfig switches API groups, versions and resources on and off
	// (--runtime-config).
	RuntimeConfig map[string]Scalar `json:"runtimeConfig"`
	// FeatureGates switches features on and off (--feature-gates).
	FeatureGates map[string]bool `json:"featureGates"`

	Admission      Admission      `json:"admission"`
	Authentication Authentication `json:"authentication"`
	Authorization  ConfigFile     `json:"authorization"`
	Audit          Audit          `json:"audit"`
	Encryption     Encryption     `json:"encryption"`
	FlowControl    FlowControl    `json:"flowControl"`
	Tracing        ConfigFile     `json:"tracing"`

	// Flags sets any other flag of upstream's option set, by its name without
	// the dashes, once for each line of the value.
	Flags map[string]Scalar `json:"flags"`
}

// ConfigFile names a file that holds one of upstream's own configuration kinds.
type ConfigFile struct {
	ConfigFile string `json:"configFile"`
}

// Authentication adds ways to authenticate to those in the data directory.
type Authentication struct {
	// ConfigFile holds an AuthenticationConfiguration (--authentication-config).
	ConfigFile string `json:"configFile"`
	// ClientCAFile has authorities of client certificates that are trusted
	// besides <dataDir>/pki/client-ca.crt (--client-ca-file); reloaded on change.
	ClientCAFile string `json:"clientCAFile"`
	// ServiceAccountKeyFiles have public keys that verify service account tokens
	// besides those in <dataDir>/pki (--service-account-key-file).
	ServiceAccountKeyFiles []string `json:"serviceAccountKeyFiles"`
	// MaxTokenExpiration bounds the life of service account tokens: a request for a longer
	// one gets this (--service-account-max-token-expiration).
	MaxTokenExpiration Duration `json:"maxTokenExpiration"`
}

// Admission selects and configures the admission plugins.
type Admission struct {
	// EnablePlugins adds to the default set (--enable-admission-plugins).
	EnablePlugins []string `json:"enablePlugins"`
	// DisablePlugins takes from it (--disable-admission-plugins).
	DisablePlugins []string `json:"disablePlugins"`
	// ConfigFile holds an AdmissionConfiguration (--admission-control-config-file).
	ConfigFile string `json:"configFile"`
}

// Audit configures the audit log. The names are those of --audit-*.
type Audit struct {
	// PolicyFile holds an audit.k8s.io/v1 Policy. No audit without it.
	PolicyFile string `json:"policyFile"`
	// LogPath is the file to write to; "-" is standard output.
	LogPath string `json:"logPath"`
	// LogMaxAge in days, LogMaxBackup in files, LogMaxSize in megabytes; 0 is
	// without limit.
	LogMaxAge    int `json:"logMaxAge"`
	LogMaxBackup int `json:"logMaxBackup"`
	LogMaxSize   int `json:"logMaxSize"`
}

// Encryption configures encryption of resources in etcd.
type Encryption struct {
	// Resources are encrypted with a key that is kept in the data directory;
	// "secrets", or "resource.group".
	Resources []string `json:"resources"`
	// ConfigFile holds an EncryptionConfiguration that is used instead
	// (--encryption-provider-config, reloaded on change).
	ConfigFile string `json:"configFile"`
}

// FlowControl switches API priority and fairness.
type FlowControl struct {
	Enabled bool `json:"enabled"`
}

// ControllerManager configures the controllers.
type ControllerManager struct {
	// Controllers has the syntax of kube-controller-manager's --controllers:
	// "*" is every controller that is on by default, "name" switches one on,
	// "-name" off.
	Controllers []string `json:"controllers"`
	// Server is the URL of the API servers, for controllers in a process of
	// their own.
	Server string `json:"server"`
}

// Logging has the names of upstream's LoggingConfiguration.
type Logging struct {
	// Format is "text" or "json".
	Format string `json:"format"`
	// Verbosity is 0 for the server's own messages, warnings and errors. From 1
	// on it adds the messages of Kubernetes and etcd.
	Verbosity int `json:"verbosity"`
}

// FileMode is a file's permission bits in octal, "0600".
type FileMode string

// Scalar is a string that may be written as a YAML string, number or boolean,
// as the value of a command line flag may. Several values of one of [APIServer.Flags] are a
// list there, and lines here.
type Scalar string

// MarshalJSON writes several lines as a list.
func (s Scalar) MarshalJSON() ([]byte, error) {
	if lines := strings.Split(string(s), "\n"); len(lines) > 1 {
		return json.Marshal(lines)
	}
	return json.Marshal(string(s))
}

// UnmarshalJSON accepts a JSON string, number or boolean, or a list of them.
func (s *Scalar) UnmarshalJSON(data []byte) error {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		*s = Scalar(strings.TrimSuffix(v, "\n")) // of a block scalar
	case bool, float64:
		*s = Scalar(data)
	case []any:
		var list []Scalar
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		*s = ""
		for _, value := range list {
			*s += value + "\n"
		}
		*s = Scalar(strings.TrimSuffix(string(*s), "\n"))
	default:
		return fmt.Errorf("%s is not a string, number or boolean", data)
	}
	return nil
}
