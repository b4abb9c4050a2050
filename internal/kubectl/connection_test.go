package kubectl

import (
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
)

// TestHint: errors about workloads name the profile that has them, other errors do not.
func TestHint(t *testing.T) {
	for message, hinted := range map[string]bool{
		"error: failed to create deployment: the server could not find the requested resource (post deployments.apps)":                 true,
		`error: the server doesn't have a resource type "pods"`:                                                                        true,
		`error: resource mapping not found for name: "x" namespace: "" from "x.yaml": no matches for kind "Job" in version "batch/v1"`: true,
		`error: the server doesn't have a resource type "gadgets"`:                                                                     false,
		`Error from server (NotFound): configmaps "pods" not found`:                                                                    false,
	} {
		if got := (Connection{Generic: true}).hint(message) != ""; got != hinted {
			t.Errorf("%t, want %t: %s", got, hinted, message)
		}
		if got := (Connection{}).hint(message); got != "" {
			t.Errorf("of a server with the profile kubernetes, or another: %s", got)
		}
	}
	const prune = `error: error retrieving RESTMappings to prune: invalid resource /v1, Kind=Endpoints, Namespaced=true: no matches for kind "Endpoints" in version "v1"`
	if got := (Connection{Generic: true}).hint(prune); !strings.Contains(got, "--prune-allowlist") {
		t.Errorf("of a prune: %q", got)
	}
	const late = "error: unknown flag: --plane\nSee 'kubectl get --help' for usage."
	if got := (Connection{}).hint(late); !strings.Contains(got, "Put --plane before the command") {
		t.Errorf("of a flag after the command: %q", got)
	}
	local := Connection{Address: kubeconfig.Address{Local: "https://127.0.0.1:6443"}, Start: "kube-hyper-mini server"}
	for message, hinted := range map[string]bool{
		"The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?": true,
		"The connection to the server 127.0.0.1:6444 was refused - did you specify the right host or port?": false,
	} {
		if got := strings.Contains(local.hint(message), "Start it with kube-hyper-mini server"); got != hinted {
			t.Errorf("%t, want %t: %s", got, hinted, message)
		}
	}
}
