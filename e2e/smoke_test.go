package e2e

import (
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestKubectlReachesANewServer is the shortest way through everything.
func TestKubectlReachesANewServer(t *testing.T) {
	s := harness.Start(t)
	if out := s.Kubectl("", "get", "namespaces", "-o", "name"); !strings.Contains(out, "namespace/default") {
		t.Fatalf("no default namespace in:\n%s", out)
	}
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
}
