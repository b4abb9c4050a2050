package cli

import (
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/undelete"
)

// TestUndeletePlan: the text of a webhook keeps to its line and controls no terminal.
func TestUndeletePlan(t *testing.T) {
	var out strings.Builder
	plan := &undelete.Plan{Items: []*undelete.Item{{Kind: "Widget", Name: "one", Reason: "denied:\n\x1b[2Jno\tway"}}}
	if err := printPlan(&out, plan); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Contains(text, "\x1b") || !strings.Contains(text, "denied: ^[[2Jno way") || strings.Count(text, "\n") != 3 {
		t.Errorf("printed %q", text)
	}
}
