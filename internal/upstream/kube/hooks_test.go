package kube

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream"
)

// TestHooksExist: Kubernetes ignores the name of a hook that it does not
// have.
func TestHooksExist(t *testing.T) {
	modules, err := upstream.Modules(".")
	if err != nil {
		t.Fatal(err)
	}
	for hook, symbol := range map[string]string{
		identityLeaseHook:   "k8s.io/kubernetes/pkg/controlplane/apiserver.completedConfig.New",
		identityLeaseGCHook: "k8s.io/kubernetes/pkg/controlplane/apiserver.completedConfig.New",
		discoveryHook:       "k8s.io/kube-aggregator/pkg/apiserver.completedConfig.NewWithDelegate",
		DocumentsHook:       "k8s.io/kube-aggregator/pkg/apiserver.completedConfig.NewWithDelegate",
		RemoteHook:          "k8s.io/kube-aggregator/pkg/apiserver.completedConfig.NewWithDelegate",
	} {
		_, dir, _, err := upstream.Locate(modules, symbol)
		if err != nil {
			t.Fatal(err)
		}
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
