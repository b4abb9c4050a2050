package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// onDisk reports whether text is in any of etcd's files.
func onDisk(t *testing.T, dir, text string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(filepath.Join(dir, "etcd"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSecretsAreEncryptedAtRest: the disk holds config maps in plain text,
// which shows that the test can find text there, and secrets not.
func TestSecretsAreEncryptedAtRest(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir)
	s.Kubectl("", "create", "secret", "generic", "s", "--from-literal=key=PlainTextOfTheSecret")
	s.Kubectl("", "create", "configmap", "c", "--from-literal=key=PlainTextOfTheConfigMap")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	if !onDisk(t, dir, "PlainTextOfTheConfigMap") {
		t.Error("the config map is not on the disk")
	}
	if onDisk(t, dir, "PlainTextOfTheSecret") {
		t.Error("the secret is on the disk in plain text")
	}
	key, err := os.Stat(filepath.Join(dir, "encryption", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if key.Mode().Perm() != 0o600 {
		t.Errorf("the encryption key has the mode %o", key.Mode().Perm())
	}
	s = harness.StartIn(t, dir)
	if got := s.Kubectl("", "get", "secret", "s", "-o", "go-template={{.data.key | base64decode}}"); got != "PlainTextOfTheSecret" {
		t.Errorf("after a restart the secret reads %q", got)
	}
}

// TestEncryptionCanBeSwitched: what is listed later is encrypted from then
// on, and a migration encrypts what was there before.
func TestEncryptionCanBeSwitched(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir, "--config", harness.ConfigFile(t, "apiServer: {encryption: {resources: []}}"))
	s.Kubectl("", "create", "configmap", "early", "--from-literal=key=EarlyPlainText")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	if !onDisk(t, dir, "EarlyPlainText") {
		t.Error("the config map is not on the disk")
	}

	s = harness.StartIn(t, dir, "--config", harness.ConfigFile(t, "apiServer: {encryption: {resources: [configmaps]}}"))
	s.Kubectl("", "create", "configmap", "late", "--from-literal=key=LatePlainText")
	before := s.Kubectl("", "get", "configmap", "early", "-o", "jsonpath={.data.key} {.metadata.resourceVersion}")
	s.Kubectl(`apiVersion: storagemigration.k8s.io/v1beta1
kind: StorageVersionMigration
metadata: {name: encrypt}
spec: {resource: {group: "", resource: configmaps}}
`, "create", "-f", "-")
	migrated(t, s, "encrypt")
	after := s.Kubectl("", "get", "configmap", "early", "-o", "jsonpath={.data.key} {.metadata.resourceVersion}")
	if after == before {
		t.Errorf("the migration did not write the config map again: %s", after)
	}
	harness.Contains(t, after, "EarlyPlainText")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	if onDisk(t, dir, "LatePlainText") {
		t.Error("a config map written while they are encrypted is on the disk in plain text")
	}

	// Switched off again, both can still be read.
	s = harness.StartIn(t, dir, "--config", harness.ConfigFile(t, "apiServer: {encryption: {resources: []}}"))
	harness.Contains(t, s.Kubectl("", "get", "configmap", "early", "late", "-o", "jsonpath={.items[*].data.key}"), "EarlyPlainText", "LatePlainText")
}

// TestWorkloadsAreEncrypted: with the profile kubernetes, resources whose keys in etcd have
// other names are encrypted, and their key is rotated.
func TestWorkloadsAreEncrypted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	file := harness.ConfigFile(t, kubernetesProfile+"apiServer: {encryption: {resources: [services, endpoints, nodes, ingresses.networking.k8s.io]}}")
	s := harness.StartIn(t, dir, "--config", file)
	s.Kubectl(`apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: node, annotations: {text: PlainTextOfTheNode}}}
- {apiVersion: v1, kind: Service, metadata: {name: s, annotations: {text: PlainTextOfTheService}}, spec: {ports: [{port: 80}]}}
- {apiVersion: v1, kind: Endpoints, metadata: {name: s, annotations: {text: PlainTextOfTheEndpoints}}}
- apiVersion: networking.k8s.io/v1
  kind: Ingress
  metadata: {name: i, annotations: {text: PlainTextOfTheIngress}}
  spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}
`, "create", "-f", "-")
	harness.Runs(t, harness.ExitOK, "encryption", "rotate", "--data-dir", dir)
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	if onDisk(t, dir, "PlainTextOf") {
		t.Error("an object is on the disk in plain text")
	}
	s = harness.StartIn(t, dir, "--config", file)
	harness.Contains(t, s.Kubectl("", "get", "node/node", "service/s", "endpoints/s", "ingress/i", "-o", "jsonpath={.items[*].metadata.annotations.text}"),
		"PlainTextOfTheNode", "PlainTextOfTheService", "PlainTextOfTheEndpoints", "PlainTextOfTheIngress")
}
