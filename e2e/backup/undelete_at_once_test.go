package backup

import (
	"fmt"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestUndeleteAtOnce: what was changed and deleted within the journal's interval comes back as it
// was, and so does what was created in it.
func TestUndeleteAtOnce(t *testing.T) {
	t.Parallel()
	destination := filepath.Join(t.TempDir(), "journal")
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, interval: 3s}\n", destination)))
	s.Kubectl("", "create", "configmap", "changed", "--from-literal", "v=1")
	journaled(t, s)
	s.Kubectl("", "patch", "configmap", "changed", "-p", `{"data":{"v":"2"}}`)
	s.Kubectl("", "create", "configmap", "young", "--from-literal", "v=2")
	s.Kubectl("", "delete", "configmap", "changed", "young")
	for _, name := range []string{"changed", "young"} {
		harness.Runs(t, harness.ExitOK, "undelete", "configmap", name, "--data-dir", s.Dir, "--from", destination)
		if v := s.Kubectl("", "get", "configmap", name, "-o", "jsonpath={.data.v}"); v != "2" {
			t.Errorf("%s came back with v=%s", name, v)
		}
	}
}
