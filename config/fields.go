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

// fileUse is what the server does with a file that a field names.
type fileUse int

const (
	output     fileUse = iota // a directory, or a file that the server writes
	input                     // it reads the file, which has no secrets
	secret                    // it reads private keys or credentials
	encrypting                // it reads keys that encrypt objects in etcd
)

// Fields lists the fields that name files, with their current values. A new field of that
// kind needs one line here, its type, and its text in config/config.yaml; what is to be
// checked of the content of the file, in apiserver.
func (c *ServerConfiguration) Fields() []Field {
	api, external := &c.APIServer, &c.Etcd.External
	field := func(use fileUse, path string, value *string) Field {
		return Field{Path: path, Value: *value, Secret: use >= secret, EncryptsObjects: use == encrypting, path: value,
			input: use >= input}
	}
	list := []Field{
		field(output, "dataDir", &c.DataDir),
		field(output, "kubeconfig.path", &c.Kubeconfig.Path),
		field(output, "backup.dir", &c.Backup.Dir),
		field(output, "manifests.dir", &c.Manifests.Dir),
		field(output, "planes.backupDir", &c.Planes.BackupDir),
		field(secret, "planes.identityFile", &c.Planes.IdentityFile),
		field(secret, "journal.credentialsFile", &c.Journal.CredentialsFile),
		field(input, "serving.certFile", &c.Serving.CertFile),
		field(secret, "serving.keyFile", &c.Serving.KeyFile),
		field(input, "serving.caFile", &c.Serving.CAFile),
		field(input, "etcd.external.caFile", &external.CAFile),
		field(input, "etcd.external.certFile", &external.CertFile),
		field(secret, "etcd.external.keyFile", &external.KeyFile),
		field(input, "apiServer.admission.configFile", &api.Admission.ConfigFile),
		field(input, "apiServer.authentication.configFile", &api.Authentication.ConfigFile),
		field(input, "apiServer.authentication.clientCAFile", &api.Authentication.ClientCAFile),
		field(input, "apiServer.authorization.configFile", &api.Authorization.ConfigFile),
		field(input, "apiServer.audit.policyFile", &api.Audit.PolicyFile),
		field(encrypting, "apiServer.encryption.configFile", &api.Encryption.ConfigFile),
		field(input, "apiServer.tracing.configFile", &api.Tracing.ConfigFile),
		field(output, "apiServer.audit.logPath", &api.Audit.LogPath),
	}
	for i := range api.Authentication.ServiceAccountKeyFiles { // public keys, or private keys that have them
		path := fmt.Sprintf("apiServer.authentication.serviceAccountKeyFiles[%d]", i)
		list = append(list, field(secret, path, &api.Authentication.ServiceAccountKeyFiles[i]))
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
