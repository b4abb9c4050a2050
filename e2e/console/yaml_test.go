package console

import (
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestYAMLForOthers: texts that kubectl's YAML takes for booleans are quoted in what the console
// shows and begins to edit, so that kubectl applies a copy of it without a change.
func TestYAMLForOthers(t *testing.T) {
	t.Parallel()
	s := filled(t)
	s.Kubectl(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "switches", "namespace": "shop"}, "data": {"on": "yes", "off": "n", "time": "2026-01-01"}}`, "create", "-f", "-")
	p := open(t, launch(t, "--data-dir", s.Dir), "#/object/core/v1/configmaps/shop/switches?tab=yaml")
	p.sees(`"on": "yes"`, `"off": "n"`, `time: "2026-01-01"`)
	p.visit("#/edit/core/v1/configmaps/shop/switches")
	p.sees(`"on": "yes"`, `"off": "n"`, `time: "2026-01-01"`)
	copied := evaluate[string](p, `[...document.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n")`)
	harness.Contains(t, s.Kubectl(copied, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-o", "jsonpath={.data}", "-f", "-"), `{"off":"n","on":"yes","time":"2026-01-01"}`)
}
