package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Field describes a field of the file that names a path or corresponds to a flag
// of kube-apiserver.
type Field struct {
	// Path is where the field is in the file: "apiServer.audit.policyFile".
	Path string
	// Flag is the corresponding flag of kube-apiserver, without dashes; or empty.
	Flag string
	// Value is in the flag's syntax; empty if the field is not set.
	Value string

	path  *string // set if the value is a path of the file system
	input bool    // the server reads the file at that path
}

// Fields lists the fields that name files or have a flag, with their current
// values. A new field of that kind needs one line here, its type, and its text in
// config/config.yaml.
func (c *ServerConfiguration) Fields() []Field {
	api, external := &c.APIServer, &c.Etcd.External
	list := []Field{
		output("dataDir", &c.DataDir),
		output("kubeconfig.path", &c.Kubeconfig.Path),
		output("backup.dir", &c.Backup.Dir),
		output("manifests.dir", &c.Manifests.Dir),
		input("archive.credentialsFile", "", &c.Archive.CredentialsFile),
		input("serving.certFile", "", &c.Serving.CertFile),
		input("serving.keyFile", "", &c.Serving.KeyFile),
		input("serving.caFile", "", &c.Serving.CAFile),
		input("etcd.external.caFile", "", &external.CAFile),
		input("etcd.external.certFile", "", &external.CertFile),
		input("etcd.external.keyFile", "", &external.KeyFile),
		input("apiServer.admission.configFile", "admission-control-config-file", &api.Admission.ConfigFile),
		input("apiServer.authentication.configFile", "authentication-config", &api.Authentication.ConfigFile),
		input("apiServer.authentication.clientCAFile", "", &api.Authentication.ClientCAFile),
		input("apiServer.authorization.configFile", "authorization-config", &api.Authorization.ConfigFile),
		input("apiServer.audit.policyFile", "audit-policy-file", &api.Audit.PolicyFile),
		input("apiServer.encryption.configFile", "encryption-provider-config", &api.Encryption.ConfigFile),
		input("apiServer.tracing.configFile", "tracing-config-file", &api.Tracing.ConfigFile),
		{Path: "apiServer.audit.logPath", Flag: "audit-log-path", Value: api.Audit.LogPath, path: &api.Audit.LogPath},
		flag("apiServer.audit.logMaxAge", "audit-log-maxage", strconv.Itoa(api.Audit.LogMaxAge)),
		flag("apiServer.audit.logMaxBackup", "audit-log-maxbackup", strconv.Itoa(api.Audit.LogMaxBackup)),
		flag("apiServer.audit.logMaxSize", "audit-log-maxsize", strconv.Itoa(api.Audit.LogMaxSize)),
		flag("apiServer.admission.enablePlugins", "enable-admission-plugins", strings.Join(api.Admission.EnablePlugins, ",")),
		flag("apiServer.admission.disablePlugins", "disable-admission-plugins", strings.Join(api.Admission.DisablePlugins, ",")),
		flag("apiServer.flowControl.enabled", "enable-priority-and-fairness", strconv.FormatBool(api.FlowControl.Enabled)),
		flag("etcd.external.prefix", "etcd-prefix", external.Prefix),
		flag("serving.bindAddress", "bind-address", c.Serving.BindAddress),
		flag("serving.externalHost", "external-hostname", c.Serving.ExternalHost),
	}
	for i := range api.Authentication.ServiceAccountKeyFiles {
		list = append(list, input(fmt.Sprintf("apiServer.authentication.serviceAccountKeyFiles[%d]", i), "", &api.Authentication.ServiceAccountKeyFiles[i]))
	}
	return list
}

// input is a field that names a file which the server reads.
func input(path, flagName string, value *string) Field {
	return Field{Path: path, Flag: flagName, Value: *value, path: value, input: true}
}

// output is a field that names a directory, or a file that the server writes.
func output(path string, value *string) Field {
	return Field{Path: path, Value: *value, path: value}
}

func flag(path, name, value string) Field { return Field{Path: path, Flag: name, Value: value} }

// NamedPaths are the files and directories besides the data directory that the
// configuration names, and its own file. Call it after Complete.
func (c *ServerConfiguration) NamedPaths() []string {
	var paths []string
	for _, field := range c.Fields() {
		if field.path != nil && field.path != &c.DataDir && filepath.IsAbs(*field.path) {
			paths = append(paths, *field.path)
		}
	}
	if c.file != "" {
		paths = append(paths, c.file)
	}
	return paths
}

// InputFiles are the files that the server reads because the configuration
// names them, by field.
func (c *ServerConfiguration) InputFiles() map[string]string {
	files := map[string]string{}
	for _, field := range c.Fields() {
		if field.input && field.Value != "" {
			files[field.Path] = field.Value
		}
	}
	return files
}
