package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestPlaneFromAJournalInS3: a control plane has an encrypted journal in a bucket. After the disk of its
// host is lost, another host makes the control plane from it, once it has the key.
func TestPlaneFromAJournalInS3(t *testing.T) {
	t.Parallel()
	store := harness.StartS3(t)
	key := filepath.Join(t.TempDir(), "identity")
	harness.WriteFile(t, key, identity+"\n")
	config := fmt.Sprintf(`backup: {encryptTo: [%s]}
journal: {endpoint: %q, region: us-east-1, credentialsFile: %q}
planes: {enabled: true, sleepAfter: 1s, journal: %q`, recipient, store.Endpoint, store.CredentialsFile, store.URL("of/planes"))
	first := harness.Start(t, "--config", harness.ConfigFile(t, config+"}\n"))
	plane(first, "acme", `{journal: {interval: 100ms}}`)
	first.Kubectl("", first.InPlane("acme", "create", "configmap", "one")...)
	first.Kubectl("", first.InPlane("acme", "create", "secret", "generic", "secret", "--from-literal=key=value")...)
	journal := first.Kubectl("", "get", "controlplane", "acme", "-o", "jsonpath={.status.journal}")
	if code := first.Stop(); code != 0 {
		t.Errorf("the first host ended with exit code %d", code)
	}
	if err := os.RemoveAll(first.Dir); err != nil {
		t.Fatal(err)
	}

	from := fmt.Sprintf("{from: {journal: %s}}", journal)
	without := harness.Start(t, "--config", harness.ConfigFile(t, config+"}\n"))
	plane(without, "acme", from)
	without.Await("jsonpath={.status.phase}=Failed", "controlplane", "acme")
	harness.Contains(t, without.Kubectl("", "get", "controlplane", "acme", "-o", "jsonpath={.status.message}"), "set planes.identityFile")

	second := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("%s, identityFile: %q}\n", config, key)))
	plane(second, "moved", from)
	second.Await("condition=Ready", "controlplane", "moved")
	harness.Contains(t, second.Kubectl("", second.InPlane("moved", "get", "configmap", "one", "-o", "name")...), "configmap/one")
	if got := second.Kubectl("", second.InPlane("moved", "get", "secret", "secret", "-o", "jsonpath={.data.key}")...); strings.TrimSpace(got) != "dmFsdWU=" {
		t.Errorf("the secret has %q", got)
	}
}

// plane makes a ControlPlane.
func plane(s *harness.Server, name, spec string) {
	s.Kubectl(fmt.Sprintf("{apiVersion: planes.kube-hyper-mini.io/v1alpha1, kind: ControlPlane, metadata: {name: %s}, spec: %s}", name, spec), "create", "-f", "-")
}
