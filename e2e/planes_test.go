package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestPlanes enters the README's commands about many control planes.
func TestPlanes(t *testing.T) {
	t.Parallel()
	config := filepath.Join(harness.Root(t), "config", "examples", "planes", "config.yaml")
	s := harness.Start(t, "--config", config, "--port", fmt.Sprint(harness.FreePort(t)))
	session := harness.NewSession(t, s)
	commands := harness.Commands(t, "README.md", "## Many control planes")
	if len(commands) < 5 {
		t.Fatalf("the README has %d commands", len(commands))
	}
	for _, command := range commands {
		session.Enter(command)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	if lines := harness.Problems(s.Log()); lines != "" {
		t.Errorf("a life without incident has warnings:\n%s", lines)
	}
}
