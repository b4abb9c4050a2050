package cli

import (
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/doctor"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// TestTerminalEscapes: texts that others have written cannot control the terminal.
func TestTerminalEscapes(t *testing.T) {
	const hostile = "\x1b[2J"
	var out strings.Builder
	if err := printReport(&out, &doctor.Report{Findings: []doctor.Finding{{Check: "references", Object: "one", Problem: hostile}}}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"doctor": out.String(),
		"status": warningText(logging.Warning{Last: time.Now(), Level: "warning", Text: hostile}),
	} {
		if strings.Contains(text, "\x1b") || !strings.Contains(text, "[2J") {
			t.Errorf("%s: %q", name, text)
		}
	}
}
