package e2e

import (
	"fmt"
	"os"
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

// TestPlanesSurviveAKill: each control plane has what was acknowledged before the host was
// killed, a deletion goes on, and nothing half-made is left.
func TestPlanesSurviveAKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	config := filepath.Join(harness.Root(t), "config", "examples", "planes", "config.yaml")
	arguments := []string{"--config", config}
	s := harness.StartIn(t, dir, arguments...)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		s.Kubectl(fmt.Sprintf("{apiVersion: planes.kube-hyper-mini.io/v1alpha1, kind: ControlPlane, metadata: {name: %s}}", name), "apply", "-f", "-")
	}
	for round := range 3 {
		for _, name := range names {
			harness.Eventually(t, "the control plane is known", func() error {
				_, err := s.TryKubectl("", s.InPlane(name, "create", "namespace", fmt.Sprintf("round-%d", round))...)
				return err
			})
		}
		s.Kubectl("", "delete", "controlplane", names[len(names)-1], "--wait=false")
		gone := names[len(names)-1]
		names = names[:len(names)-1]
		s.Kill()
		s = harness.StartIn(t, dir, arguments...)
		for _, name := range names {
			harness.Contains(t, s.Kubectl("", s.InPlane(name, "get", "namespace", fmt.Sprintf("round-%d", round))...), "Active")
		}
		harness.Eventually(t, "the deleted control plane is gone", func() error {
			for _, entry := range []string{gone, ".removed-" + gone} {
				if _, err := os.Stat(filepath.Join(dir, "planes", entry)); err == nil {
					return fmt.Errorf("%s is there", entry)
				}
			}
			return nil
		})
	}
}
