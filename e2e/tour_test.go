package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestTour is what the README promises to somebody who starts the server for
// the first time.
func TestTour(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	k := newKind()
	harness.Wants(t, s.Kubectl("", "get", "namespaces"), "default", "kube-system", "Active")
	harness.Wants(t, s.Kubectl("", "version"), "Server Version: "+harness.KubernetesVersion(t))
	harness.Wants(t, s.Kubectl("", "create", "namespace", "tour"), "namespace/tour created")
	define(t, s, k, k.definition("Namespaced"))
	harness.Wants(t, s.Kubectl(k.object("first", "spec: {size: 3}"), "apply", "-n", "tour", "-f", "-"), "first created")
	harness.Wants(t, s.Kubectl("", "get", k.plural, "-n", "tour"), "NAME", "first")
	harness.Wants(t, s.Kubectl("", "get", k.plural, "first", "-n", "tour", "-o", "jsonpath={.spec.size}"), "3")
	harness.Wants(t, s.Kubectl("", "api-resources", "--api-group", k.group), k.plural, k.name)
	// kubectl waits until the namespace and what was in it are gone.
	harness.Wants(t, s.Kubectl("", "delete", "namespace", "tour"), `"tour" deleted`)
	if out := s.Kubectl("", "get", k.plural, "-A"); !strings.Contains(out, "No resources found") {
		t.Errorf("the namespace is gone and its content is not:\n%s", out)
	}
	s.Kubectl("", "delete", "crd", k.crd())
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	if lines := harness.Complaints(s.Log()); lines != "" {
		t.Errorf("a life without incident has warnings:\n%s", lines)
	}
}

// TestReadme enters what the README's first tour says, in its order.
func TestReadme(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	entered := 0
	for _, command := range harness.Console(t, "## Sixty seconds") {
		fields := strings.Fields(strings.ReplaceAll(command.Line, "config/examples/", filepath.Join(harness.Root(t), "config/examples")+"/"))
		out, shown := "", false
		switch {
		case fields[0] == "export":
			continue // the kubeconfig is another one here
		case strings.HasPrefix(command.Line, "kubectl patch"):
			// The README shows what is refused.
			line, patch, _ := strings.Cut(command.Line, " -p ")
			var err error
			out, err = s.TryKubectl("", append(strings.Fields(line)[1:], "-p", strings.Trim(patch, "'"))...)
			shown = err != nil && strings.Contains(out, command.Output[0])
		case strings.HasPrefix(command.Line, "kubectl apply"):
			// A reader is not as fast as the test.
			harness.Eventually(t, command.Line+" succeeds", func() (err error) {
				out, err = s.TryKubectl("", fields[1:]...)
				return err
			})
			shown = command.Shown(out)
		case fields[0] == "kubectl":
			out = s.Kubectl("", fields[1:]...)
			shown = command.Shown(out)
		case command.Line == "go run . status":
			out = s.Status()
			shown = command.Shown(out)
		default:
			t.Fatalf("the README has a command that the test does not know: %s", command.Line)
		}
		if !shown {
			t.Errorf("%s shows not what the README does:\n%s", command.Line, out)
		}
		entered++
	}
	if entered < 8 {
		t.Errorf("the README has only %d commands", entered)
	}
}

// TestStartIsQuiet: a start says about ten lines, and the last one is how to
// use the server.
func TestStartIsQuiet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/data"
	for _, start := range []string{"first", "second"} {
		s := harness.StartIn(t, dir)
		lines := harness.Unhurried(s.Log())
		if len(lines) > 10 {
			t.Errorf("the %s start says %d lines:\n%s", start, len(lines), s.Log())
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "kubectl --kubeconfig "+s.Kubeconfig+" get") {
			t.Errorf("the last line of the %s start does not tell how to use it: %s", start, last)
		}
		for _, line := range lines {
			if harness.Complaints(line) != "" {
				t.Errorf("the %s start warns: %s", start, line)
			}
		}
		if code := s.Stop(); code != 0 {
			t.Errorf("the server ended with exit code %d", code)
		}
	}
}
