package kube

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestHooksExist: Kubernetes ignores the name of a hook that it does not
// have.
func TestHooksExist(t *testing.T) {
	for hook, path := range map[string]string{
		identityLeaseHook:   "k8s.io/kubernetes/pkg/controlplane/apiserver",
		identityLeaseGCHook: "k8s.io/kubernetes/pkg/controlplane/apiserver",
		discoveryHook:       "k8s.io/kube-aggregator/pkg/apiserver",
		DocumentsHook:       "k8s.io/kube-aggregator/pkg/apiserver",
		RemoteHook:          "k8s.io/kube-aggregator/pkg/apiserver",
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.TrimSpace(string(out))
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", dir, files, err)
		}
		found := false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(source), strconv.Quote(hook))
		}
		if !found {
			t.Errorf("no file in %s has the hook %q", dir, hook)
		}
	}
}
