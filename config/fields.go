package config

import (
	"fmt"
	"path/filepath"
	"slices"
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
	// Format is that of the named file, if a start checks the content; or empty.
	Format Format
	// Secret is set if the named file has, or may have, private keys or credentials:
	// archives made without keys leave it out.
	Secret bool
	// EncryptsObjects is set if the named file has the keys that encrypt objects in etcd:
	// the continuous archive has each version of it.
	EncryptsObjects bool

	path  *string // set if the value is a path of the file system
	input bool    // the server reads the file at that path
}

// Format is the format of a file that a field names.
type Format string

// Formats of the named files: kinds of upstream, and PEM files.
const (
	FormatAdmissionConfiguration      Format = "AdmissionConfiguration"
	FormatAuditPolicy                 Format = "Policy"
	FormatAuthenticationConfiguration Format = "AuthenticationConfiguration"
	FormatCertificates                Format = "PEM certificates"
	FormatEncryptionConfiguration     Format = "EncryptionConfiguration"
	FormatPublicKeys                  Format = "PEM public keys"
	FormatTracingConfiguration        Format = "TracingConfiguration"
)

// Fields lists the fields that name files or have a flag, with their current
// values. A new field of that kind needs one line here, its type, and its text in
// config/config.yaml; a new format of files also needs its check in apiserver.
func (c *ServerConfiguration) Fields() []Field {
	api, external := &c.APIServer, &c.Etcd.External
	list := []Field{
		output("dataDir", &c.DataDir),
		output("kubeconfig.path", &c.Kubeconfig.Path),
		output("backup.dir", &c.Backup.Dir),
		output("manifests.dir", &c.Manifests.Dir),
		secret("archive.credentialsFile", &c.Archive.CredentialsFile),
		input("serving.certFile", &c.Serving.CertFile),
		secret("serving.keyFile", &c.Serving.KeyFile),
		input("serving.caFile", &c.Serving.CAFile).in(FormatCertificates),
		input("etcd.external.caFile", &external.CAFile),
		input("etcd.external.certFile", &external.CertFile),
		secret("etcd.external.keyFile", &external.KeyFile),
		input("apiServer.admission.configFile", &api.Admission.ConfigFile).in(FormatAdmissionConfiguration).withFlag("admission-control-config-file"),
		input("apiServer.authentication.configFile", &api.Authentication.ConfigFile).in(FormatAuthenticationConfiguration).withFlag("authentication-config"),
		input("apiServer.authentication.clientCAFile", &api.Authentication.ClientCAFile).in(FormatCertificates),
		input("apiServer.authorization.configFile", &api.Authorization.ConfigFile).withFlag("authorization-config"),
		input("apiServer.audit.policyFile", &api.Audit.PolicyFile).in(FormatAuditPolicy).withFlag("audit-policy-file"),
		encrypting("apiServer.encryption.configFile", &api.Encryption.ConfigFile).in(FormatEncryptionConfiguration).withFlag("encryption-provider-config"),
		input("apiServer.tracing.configFile", &api.Tracing.ConfigFile).in(FormatTracingConfiguration).withFlag("tracing-config-file"),
		output("apiServer.audit.logPath", &api.Audit.LogPath).withFlag("audit-log-path"),
		flag("apiServer.authentication.maxTokenExpiration", "service-account-max-token-expiration", api.Authentication.MaxTokenExpiration.String()),
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
	for i := range api.Authentication.ServiceAccountKeyFiles { // public keys, or private keys that have them
		path := fmt.Sprintf("apiServer.authentication.serviceAccountKeyFiles[%d]", i)
		list = append(list, secret(path, &api.Authentication.ServiceAccountKeyFiles[i]).in(FormatPublicKeys))
	}
	return list
}

// CheckPath returns an error for a path that begins with "~": only shells expand that.
func CheckPath(path string) error {
	if !strings.HasPrefix(path, "~") {
		return nil
	}
	return fmt.Errorf("%q is not expanded here: write the whole path, as /home/NAME/..., or ./%s for a file of that name", path, path)
}

// makeAbsolute joins a relative path with dir. It leaves "-", which is standard output, and
// what [CheckPath] refuses.
func makeAbsolute(path *string, dir string) {
	switch {
	case *path == "" || *path == "-" || CheckPath(*path) != nil:
	case filepath.IsAbs(*path):
		*path = filepath.Clean(*path)
	default:
		*path = filepath.Join(dir, *path)
	}
}

// input is a field that names a file which the server reads, without secrets.
func input(path string, value *string) Field {
	return Field{Path: path, Value: *value, path: value, input: true}
}

// secret is a field that names a file with private keys or credentials.
func secret(path string, value *string) Field {
	field := input(path, value)
	field.Secret = true
	return field
}

// encrypting is a field that names a file with keys that encrypt objects in etcd.
func encrypting(path string, value *string) Field {
	field := secret(path, value)
	field.EncryptsObjects = true
	return field
}

// output is a field that names a directory, or a file that the server writes.
func output(path string, value *string) Field {
	return Field{Path: path, Value: *value, path: value}
}

func flag(path, name, value string) Field { return Field{Path: path, Flag: name, Value: value} }

func (f Field) in(format Format) Field {
	f.Format = format
	return f
}

func (f Field) withFlag(name string) Field {
	f.Flag = name
	return f
}

// EncryptsObjects reports whether the field at the path names a file with keys that
// encrypt objects in etcd.
func EncryptsObjects(path string) bool {
	return slices.ContainsFunc(new(ServerConfiguration).Fields(), func(f Field) bool { return f.EncryptsObjects && f.Path == path })
}

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

// InputFiles are the fields whose files the server reads, those that are set, sorted by
// path.
func (c *ServerConfiguration) InputFiles() []Field {
	var files []Field
	for _, field := range c.Fields() {
		if field.input && field.Value != "" {
			files = append(files, field)
		}
	}
	slices.SortFunc(files, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return files
}
