package version

import (
	"os"
	"strings"
	"testing"
)

// TestKubernetes: a binary without a list of its modules, such as this one, has the version of
// go.mod.
func TestKubernetes(t *testing.T) {
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if got := Kubernetes(); !strings.Contains(string(module), "\tk8s.io/kubernetes "+got+"\n") {
		t.Errorf("go.mod does not require k8s.io/kubernetes %s: change requiredKubernetes", got)
	}
}
