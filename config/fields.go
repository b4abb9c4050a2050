package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Field describes a field of the file that names a path.
type Field struct {
	// Path is where the field is in the file: "apiServer.audit.policyFile".
	Path string
	// Value is the named path; empty if the field is not set.
	Value string
	// Secret is set if the named file has, or may have, private keys or credentials:
	// backups made without keys leave it out.
	Secret bool
	// EncryptsObjects is set if the named file has the keys that encrypt objects in etcd:
	// the journal has each version of it.
	EncryptsObjects bool

	path  *string
	input bool // the server reads the file at that path
}

// Fields lists the fields that name files, with their current values. A new field of that
// kind needs one line here, its type, and its text in config/config.yaml; what is to be
// checked of the content of the file, in apiserver.
func (c *ServerConfiguration) Fields() []Field {
	api, external := &c.APIServer, &c.Etcd.External
	list := []Field{
		output("dataDir", &c.DataDir),
		output("kubeconfig.path", &c.Kubeconfig.Path),
		output("backup.dir", &c.Backup.Dir),
		output("manifests.dir", &c.Manifests.Dir),
		output("planes.backupDir", &c.Planes.BackupDir),
		secret("planes.identityFile", &c.Planes.IdentityFile),
		secret("journal.credentialsFile", &c.Journal.CredentialsFile),
		input("serving.certFile", &c.Serving.CertFile),
		secret("serving.keyFile", &c.Serving.KeyFile),
		input("serving.caFile", &c.Serving.CAFile),
		input("etcd.external.caFile", &external.CAFile),
		input("etcd.external.certFile", &external.CertFile),
		secret("etcd.external.keyFile", &external.KeyFile),
		input("apiServer.admission.configFile", &api.Admission.ConfigFile),
		input("apiServer.authentication.configFile", &api.Authentication.ConfigFile),
		input("apiServer.authentication.clientCAFile", &api.Authentication.ClientCAFile),
		input("apiServer.authorization.configFile", &api.Authorization.ConfigFile),
		input("apiServer.audit.policyFile", &api.Audit.PolicyFile),
		encrypting("apiServer.encryption.configFile", &api.Encryption.ConfigFile),
		input("apiServer.tracing.configFile", &api.Tracing.ConfigFile),
		output("apiServer.audit.logPath", &api.Audit.LogPath),
	}
	for i := range api.Authentication.ServiceAccountKeyFiles { // public keys, or private keys that have them
		path := fmt.Sprintf("apiServer.authentication.serviceAccountKeyFiles[%d]", i)
		list = append(list, secret(path, &api.Authentication.ServiceAccountKeyFiles[i]))
	}
	return list
}

// CheckPath returns an error for a URL, and for a path that begins with "~": only shells
// expand that.
func CheckPath(path string) error {
	if strings.Contains(path, "://") {
		return fmt.Errorf("%q is a URL: write a path on this machine", path)
	}
	if !strings.HasPrefix(path, "~") {
		return nil
	}
	return fmt.Errorf("%q is not expanded here: write the whole path, as /home/NAME/..., or ./%s for a file of that name",
		path, path)
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

// EncryptsObjects reports whether the field at the path names a file with keys that
// encrypt objects in etcd.
func EncryptsObjects(path string) bool {
	return slices.ContainsFunc(new(ServerConfiguration).Fields(),
		func(f Field) bool { return f.EncryptsObjects && f.Path == path })
}

// NamedPaths are the files and directories besides the data directory that the
// configuration names, and its own file. Call it after Complete.
func (c *ServerConfiguration) NamedPaths() []string {
	var paths []string
	for _, field := range c.Fields() {
		if field.path != &c.DataDir && filepath.IsAbs(*field.path) {
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
