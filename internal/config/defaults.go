package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Default returns the configuration of a server that was given no file. The
// file config/config.yaml says the same in words; a test holds them equal.
func Default() *ServerConfiguration {
	return &ServerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		Serving: Serving{
			BindAddress: "127.0.0.1",
			Port:        6443,
			ExtraSANs:   []string{},
		},
		Kubeconfig: Kubeconfig{Mode: "0600"},
		Etcd: Etcd{
			Embedded: EmbeddedEtcd{
				QuotaBackend: resource.MustParse("8Gi"), Fsync: true, Listen: "127.0.0.1:2379",
				Defragment: Defragment{FreePercent: 50, MinimumSize: resource.MustParse("128Mi")},
			},
			External: ExternalEtcd{Endpoints: []string{}, Prefix: "/registry"},
		},
		APIServer: APIServer{
			RuntimeConfig:  map[string]Scalar{},
			FeatureGates:   map[string]bool{},
			Admission:      Admission{EnablePlugins: []string{}, DisablePlugins: []string{}},
			Authentication: Authentication{ServiceAccountKeyFiles: []string{}},
			Audit:          Audit{LogMaxAge: 30, LogMaxBackup: 10, LogMaxSize: 100},
			Encryption:     Encryption{Resources: []string{"secrets"}},
			FlowControl:    FlowControl{Enabled: true},
			Flags:          map[string]Scalar{},
		},
		ControllerManager: ControllerManager{Controllers: []string{"*"}},
		ServiceEndpoints:  []ServiceEndpoint{},
		Manifests:         Manifests{WaitForReady: true},
		Backup:            Backup{Keep: 7, EncryptTo: []string{}, Endpoint: On, BeforeUpgrade: true},
		Logging:           Logging{Format: "text"},
	}
}

// Complete fills in the paths that depend on the user and the data directory
// and makes all paths absolute, so that what is printed is what is used.
func (c *ServerConfiguration) Complete() error {
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
	if c.Backup.Dir == "" {
		c.Backup.Dir = filepath.Join(c.DataDir, "backups")
	}
	for _, path := range append(c.files(), fieldPath{"backup.dir", &c.Backup.Dir}, fieldPath{"dataDir", &c.DataDir}, fieldPath{"kubeconfig.path", &c.Kubeconfig.Path}, fieldPath{"manifests.dir", &c.Manifests.Dir}) {
		if *path.value == "" || *path.value == "-" {
			continue
		}
		abs, err := filepath.Abs(*path.value)
		if err != nil {
			return &FieldError{Path: path.field, Message: err.Error()}
		}
		*path.value = abs
	}
	return nil
}

// fieldPath is a field that holds the path of a file.
type fieldPath struct {
	field string
	value *string
}

// files lists the fields that name a file which the server reads or, for the
// audit log, writes.
func (c *ServerConfiguration) files() []fieldPath {
	return append(c.inputFiles(), fieldPath{"apiServer.audit.logPath", &c.APIServer.Audit.LogPath})
}

// NamedPaths are the files and directories besides the data directory that the
// configuration names, and its own file. Call it after Complete.
func (c *ServerConfiguration) NamedPaths() []string {
	paths := []string{c.Kubeconfig.Path, c.Backup.Dir, c.Manifests.Dir, c.file}
	for _, file := range c.files() {
		paths = append(paths, *file.value)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !filepath.IsAbs(path) })
}

// InputFiles are the files that the server reads because the configuration
// names them, by field.
func (c *ServerConfiguration) InputFiles() map[string]string {
	files := map[string]string{}
	for _, file := range c.inputFiles() {
		if *file.value != "" {
			files[file.field] = *file.value
		}
	}
	return files
}

func (c *ServerConfiguration) inputFiles() []fieldPath {
	files := []fieldPath{
		{"serving.certFile", &c.Serving.CertFile},
		{"serving.keyFile", &c.Serving.KeyFile},
		{"serving.caFile", &c.Serving.CAFile},
		{"etcd.external.caFile", &c.Etcd.External.CAFile},
		{"etcd.external.certFile", &c.Etcd.External.CertFile},
		{"etcd.external.keyFile", &c.Etcd.External.KeyFile},
		{"apiServer.admission.configFile", &c.APIServer.Admission.ConfigFile},
		{"apiServer.authentication.configFile", &c.APIServer.Authentication.ConfigFile},
		{"apiServer.authentication.clientCAFile", &c.APIServer.Authentication.ClientCAFile},
		{"apiServer.authorization.configFile", &c.APIServer.Authorization.ConfigFile},
		{"apiServer.audit.policyFile", &c.APIServer.Audit.PolicyFile},
		{"apiServer.encryption.configFile", &c.APIServer.Encryption.ConfigFile},
		{"apiServer.tracing.configFile", &c.APIServer.Tracing.ConfigFile},
	}
	for i := range c.APIServer.Authentication.ServiceAccountKeyFiles {
		files = append(files, fieldPath{fmt.Sprintf("apiServer.authentication.serviceAccountKeyFiles[%d]", i), &c.APIServer.Authentication.ServiceAccountKeyFiles[i]})
	}
	return files
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
		return "", &FieldError{Path: "dataDir", Message: "no home directory to put it in (" + err.Error() + "): set dataDir or --data-dir"}
	}
	return filepath.Join(dir, ".local", "share", name), nil
}
