package cli

import (
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
)

// TestStatusCountsInWords: one of a thing is not several.
func TestStatusCountsInWords(t *testing.T) {
	for n, want := range map[int][]string{
		0: {"0 custom resource definitions, 0 with objects", "0 objects"},
		1: {"1 custom resource definition, 1 with objects", "1 object\n"},
		2: {"2 custom resource definitions, 2 with objects", "2 objects"},
	} {
		var out strings.Builder
		status := &admin.Status{CustomTypes: &crds.Types{Installed: n, Populated: n, Resident: n}, Manifests: &manifests.Summary{Objects: n}}
		if err := printStatus(&out, status); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%q is missing:\n%s", text, out.String())
			}
		}
	}
}
