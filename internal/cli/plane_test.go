package cli

import (
	"strings"
	"testing"
)

// TestAtPlane: the address in the kubeconfig is that of the control plane, and names that
// would lead elsewhere are refused.
func TestAtPlane(t *testing.T) {
	const text = "apiVersion: v1\nkind: Config\nclusters:\n- name: a\n  cluster: {server: https://127.0.0.1:6443}\n"
	got, err := atPlane([]byte(text), "acme")
	if err != nil || !strings.Contains(string(got), "server: https://127.0.0.1:6443/clusters/acme\n") {
		t.Errorf("%v:\n%s", err, got)
	}
	if got, err := atPlane([]byte(text), ""); err != nil || string(got) != text {
		t.Errorf("without a name: %v:\n%s", err, got)
	}
	for _, name := range []string{"../other", "A", "a/b", "a b"} {
		if _, err := atPlane([]byte(text), name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}
