package config

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withFiles has an element in each list of files.
func withFiles() *ServerConfiguration {
	cfg := Default()
	cfg.APIServer.Authentication.ServiceAccountKeyFiles = []string{""}
	return cfg
}

// TestSecretFiles decides for each file that the server reads whether it may have private
// keys or credentials. Backups made without keys have the others: a new field needs a
// decision here.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	want := map[string]bool{
		"journal.credentialsFile":               true,
		"planes.identityFile":                   true,
		"etcd.external.caFile":                  false,
		"etcd.external.certFile":                false,
		"etcd.external.keyFile":                 true,
		"serving.caFile":                        false,
		"serving.certFile":                      false,
		"serving.keyFile":                       true,
		"apiServer.admission.configFile":        false, // plugins name their kubeconfigs by path
		"apiServer.audit.policyFile":            false,
		"apiServer.authentication.configFile":   false, // issuers and their certificates
		"apiServer.authorization.configFile":    false, // webhooks name their kubeconfigs by path
		"apiServer.encryption.configFile":       true,
		"apiServer.tracing.configFile":          false,
		"apiServer.authentication.clientCAFile": false,
		// A file with a private key is accepted where a public key is needed.
		"apiServer.authentication.serviceAccountKeyFiles[0]": true,
	}
	got := map[string]bool{}
	for _, field := range withFiles().Fields() {
		if field.input {
			got[field.Path] = field.Secret
		}
		if field.EncryptsObjects && !field.Secret {
			t.Errorf("%s has keys that encrypt objects, and is not secret", field.Path)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files and whether they are secret (-decided +marked):\n%s", diff)
	}
}

// TestFieldsListsAllFiles: a field whose name says that it is a path is in Fields, or the
// file would be neither journaled nor kept from a removal of the data directory.
func TestFieldsListsAllFiles(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, field := range withFiles().Fields() {
		listed[strings.TrimSuffix(field.Path, "[0]")] = true
	}
	found := map[string]bool{}
	addPaths(found, reflect.TypeFor[ServerConfiguration](), "")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(listed))); diff != "" {
		t.Errorf("fields that are paths (-by name +in Fields):\n%s", diff)
	}
}

var pathName = regexp.MustCompile(`(^dir|Dir|^file|Files?|^path|Path)$`)

// addPaths adds the fields of the struct whose names are those of paths.
func addPaths(found map[string]bool, t reflect.Type, at string) {
	for name, field := range jsonFields(t) {
		path := join(at, name)
		switch {
		case pathName.MatchString(name):
			found[path] = true
		case field.Kind() == reflect.Struct && field.PkgPath() == t.PkgPath():
			addPaths(found, field, path)
		case field.Kind() == reflect.Slice && field.Elem().Kind() == reflect.Struct:
			addPaths(found, field.Elem(), path)
		}
	}
}
