package backup

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// writeKeys writes an EncryptionConfiguration with keys of these names, the first of
// which encrypts.
func writeKeys(t *testing.T, file string, names ...string) {
	t.Helper()
	var keys []string
	for _, name := range names {
		secret := base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%032s", name)))
		keys = append(keys, fmt.Sprintf("{name: %s, secret: %s}", name, secret))
	}
	content := fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm: {keys: [%s]}
`, strings.Join(keys, ", "))
	harness.WriteFile(t, file, content)
}

// TestJournalHasTheKeyFile: after a key was added to a file that the configuration names,
// the journal has what is needed to read what the new key has encrypted.
func TestJournalHasTheKeyFile(t *testing.T) {
	t.Parallel()
	destination, file := filepath.Join(t.TempDir(), "journal"), filepath.Join(t.TempDir(), "encryption.yaml")
	config := harness.ConfigFile(t, fmt.Sprintf("apiServer: {encryption: {configFile: %q}}\njournal: {destination: %q, interval: 100ms}\n", file, destination))
	writeKeys(t, file, "one")
	s := harness.Start(t, "--config", config)
	s.Kubectl("", "create", "secret", "generic", "former", "--from-literal=key=value")
	journaled(t, s)
	s.Stop()
	writeKeys(t, file, "two", "one")
	s = harness.StartIn(t, s.Dir, "--config", config)
	secret(t, s)
	create(t, s, "last")
	u := undeletion{t, s, destination}
	for _, name := range []string{"former", "s"} {
		version := u.versions("secret", name)[0]
		harness.Contains(t, u.run(harness.ExitOK, "history", "show", "secret", name, "--revision", fmt.Sprint(version.Revision)), "key: dmFsdWU=")
	}
	s.Stop()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", s.Dir, "--from", destination), "restored "+s.Dir)
	content, err := os.ReadFile(filepath.Join(s.Dir, "restored-config", "files", "apiServer.encryption.configFile"))
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	reads(t, harness.StartIn(t, s.Dir, "--config", config), "last")
}
