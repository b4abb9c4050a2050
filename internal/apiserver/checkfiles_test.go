package apiserver

import (
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestFormatsHaveChecks: a field that names the format of its file has the file checked.
func TestFormatsHaveChecks(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.APIServer.Authentication.ServiceAccountKeyFiles = []string{""}
	checks, used := new(Options).fileChecks(), map[config.Format]bool{}
	for _, field := range cfg.Fields() {
		if field.Format != "" && checks[field.Format] == nil {
			t.Errorf("%s: no check of the format %q", field.Path, field.Format)
		}
		used[field.Format] = true
	}
	for format := range checks {
		if !used[format] {
			t.Errorf("no field has the format %q", format)
		}
	}
}
