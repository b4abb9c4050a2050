package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Default returns the default configuration. config/config.yaml documents the
// same values; a test compares the two.
func Default() *ServerConfiguration {
	return &ServerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		Serving: Serving{
			BindAddress: "127.0.0.1",
			Port:        6443,
			ExtraSANs:   []string{},
			StopGrace:   Duration{4 * time.Second},
		},
		Kubeconfig: Kubeconfig{Mode: "0600"},
		Etcd: Etcd{
			Embedded: EmbeddedEtcd{
				QuotaBackend: resource.MustParse("8Gi"), Fsync: true, Listen: "127.0.0.1:2379",
				Defragment: Defragment{FreePercent: 50, MinimumSize: resource.MustParse("128Mi"),
					MaximumInUse: resource.MustParse("256Mi"), Window: "02:00-05:00"},
			},
			External: ExternalEtcd{Endpoints: []string{}, Prefix: "/registry"},
		},
		APIs: APIs{Profile: ProfileGeneric},
		APIServer: APIServer{
			RuntimeConfig: map[string]Scalar{},
			FeatureGates:  map[string]bool{},
			Admission:     Admission{EnablePlugins: []string{}, DisablePlugins: []string{}},
			Authentication: Authentication{ServiceAccountKeyFiles: []string{},
				MaxTokenExpiration: Duration{365 * 24 * time.Hour}},
			Audit:       Audit{LogMaxAge: 30, LogMaxBackup: 10, LogMaxSize: 100},
			Encryption:  Encryption{Resources: []string{"secrets"}},
			FlowControl: FlowControl{Enabled: true},
			Flags:       map[string]Scalar{},
		},
		ControllerManager: ControllerManager{Controllers: []string{"*"}},
		ServiceEndpoints:  []ServiceEndpoint{},
		ServiceEndpointPolicy: ServiceEndpointPolicy{
			AllowedNetworks: []string{}, DeniedNetworks: slices.Clone(metadataNetworks),
			AllowedPorts: []Scalar{}, DeniedPorts: []Scalar{},
		},
		Manifests: Manifests{WaitForReady: true},
		Backup:    Backup{Keep: 7, EncryptTo: []string{}, Endpoint: On, BeforeUpgrade: true},
		Journal: Journal{
			Interval: Duration{time.Second}, Retention: Duration{7 * 24 * time.Hour},
			MaxSpool: resource.MustParse("1Gi"),
		},
		Limits:  defaultLimits(),
		Planes:  defaultPlanes(),
		Logging: Logging{Format: "text"},
	}
}

// Complete fills in the paths that depend on the user and the data directory
// and makes all paths absolute.
func (c *ServerConfiguration) Complete() error {
	if err := c.keepUsed(); err != nil {
		return err
	}
	if c.DataDir == "" {
		dir, err := defaultDataDir(os.Geteuid() == 0, os.Getenv("XDG_DATA_HOME"), os.UserHomeDir)
		if err != nil {
			return err
		}
		c.DataDir = dir
	}
	if c.Kubeconfig.Path == "" {
		c.Kubeconfig.Path = filepath.Join(c.DataDir, "admin.kubeconfig")
	}
	c.Serving.completeExternalURL()
	if c.Backup.Dir == "" {
		c.Backup.Dir = filepath.Join(c.DataDir, "backups")
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	c.resolve(dir)
	return nil
}

// Relocate sets another data directory, and moves the kubeconfig and the backups with it if they are
// in the former one: the configuration in a backup has the paths of the server that made it.
func (c *ServerConfiguration) Relocate(dir string) {
	for _, path := range []*string{&c.Kubeconfig.Path, &c.Backup.Dir} {
		if below, err := filepath.Rel(c.DataDir, *path); err == nil && filepath.IsAbs(*path) && filepath.IsLocal(below) {
			*path = filepath.Join(dir, below)
		}
	}
	c.DataDir = dir
}

func defaultDataDir(root bool, xdgDataHome string, home func() (string, error)) (string, error) {
	const name = "kube-hyper-mini"
	if root {
		return filepath.Join("/var/lib", name), nil
	}
	if filepath.IsAbs(xdgDataHome) {
		return filepath.Join(xdgDataHome, name), nil
	}
	dir, err := home()
	if err != nil {
		return "", &FieldError{Path: "dataDir", Message: "no home directory to put it in (" + err.Error() +
			"): set dataDir or --data-dir"}
	}
	return filepath.Join(dir, ".local", "share", name), nil
}
