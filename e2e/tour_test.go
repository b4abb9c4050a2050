package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestReadme enters the commands of the README's first tour in order. The log has no warnings.
func TestReadme(t *testing.T) {
	t.Parallel()
	s := enter(t, "README.md", "## Sixty seconds", 8)
	refused(t, s, "", []string{"cluster-info"}, `the server doesn't have a resource type "services"`) // as the topic clients says
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	if lines := harness.Problems(s.Log()); lines != "" {
		t.Errorf("a life without incident has warnings:\n%s", lines)
	}
}

// TestTopics enters the commands of each help topic in a shell, on a server of
// its own. The aggregation topic, which builds programs, is run beside the tests
// of aggregation.
func TestTopics(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(harness.Root(t), harness.Topic("*")))
	if err != nil || len(files) < 14 {
		t.Fatalf("there are %d topics, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name == "aggregation" || len(harness.Commands(t, harness.Topic(name), "")) == 0 {
			continue
		}
		if testing.Short() && name != "access" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enter(t, harness.Topic(name), "", 1)
		})
	}
}

// enter runs the commands of a document on a new server, which it returns, and fails if
// there are fewer than least.
func enter(t *testing.T, document, heading string, least int) *harness.Server {
	t.Helper()
	commands := harness.Commands(t, document, heading)
	if len(commands) < least {
		t.Fatalf("%s has only %d commands", document, len(commands))
	}
	programs := map[string]string{}
	if document == harness.Topic("clients") {
		programs["helm"] = helmBinary(t) // before the session, whose time is bounded
	}
	s := harness.Start(t, "--port", fmt.Sprint(harness.FreePort(t)))
	session := harness.NewSession(t, s)
	for name, path := range programs {
		session.Program(name, path)
	}
	for _, command := range commands {
		session.Enter(command)
	}
	return s
}

// TestStartLogsAboutTenLines: a start logs about ten lines; the last one says how to use
// the server.
func TestStartLogsAboutTenLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/data"
	for _, start := range []string{"first", "second"} {
		s := harness.StartIn(t, dir)
		lines := harness.WithoutSlowness(s.Log())
		if len(lines) > 10 {
			t.Errorf("the %s start says %d lines:\n%s", start, len(lines), s.Log())
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "kubectl --kubeconfig "+s.Kubeconfig+" get") {
			t.Errorf("the last line of the %s start does not tell how to use it: %s", start, last)
		}
		for _, line := range lines {
			if harness.Problems(line) != "" {
				t.Errorf("the %s start warns: %s", start, line)
			}
		}
		if code := s.Stop(); code != 0 {
			t.Errorf("the server ended with exit code %d", code)
		}
	}
}
