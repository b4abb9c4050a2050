package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestKubectlSubcommand: the kubectl in the program finds the local server by itself,
// and has kubectl's output, exit codes, completion and plugins.
func TestKubectlSubcommand(t *testing.T) {
	s := shared.Server(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for name, test := range map[string]struct {
		env  []string
		args []string
		code int
		says string
	}{
		"of a data directory":        {args: []string{"--data-dir", s.Dir, "get", "namespace", "default", "-o", "name"}, says: "namespace/default\n"},
		"the flag with =":            {args: []string{"--data-dir=" + s.Dir, "get", "namespace", "default", "-o", "name"}, says: "namespace/default\n"},
		"of the environment":         {env: []string{"KUBE_HYPER_MINI_DATA_DIR=" + s.Dir}, args: []string{"get", "namespace", "default", "-o", "name"}, says: "namespace/default\n"},
		"the flag before that":       {env: []string{"KUBECONFIG=" + elsewhere}, args: []string{"--data-dir", s.Dir, "get", "namespace", "default", "-o", "name"}, says: "namespace/default\n"},
		"--kubeconfig before that":   {env: []string{"KUBECONFIG=" + elsewhere}, args: []string{"get", "namespace", "default", "-o", "name", "--kubeconfig", s.Kubeconfig}, says: "namespace/default\n"},
		"a workload":                 {args: []string{"--data-dir", s.Dir, "create", "deployment", "x", "--image", "x"}, code: 1, says: "--profile kubernetes"},
		"what is not there":          {args: []string{"--data-dir", s.Dir, "get", "namespace", "no-such"}, code: 1, says: `namespaces "no-such" not found`},
		"an unknown command":         {args: []string{"--data-dir", s.Dir, "no-such"}, code: 1, says: `unknown command "no-such" for "kubectl"`},
		"without a server":           {args: []string{"--data-dir", elsewhere, "get", "namespaces"}, code: 1, says: "no kubeconfig at " + elsewhere},
		"without the flag's value":   {args: []string{"--data-dir"}, code: 2, says: "--data-dir needs a value"},
		"with a wrong configuration": {args: []string{"--config", elsewhere, "get", "namespaces"}, code: 2, says: "read the configuration"},
		"its help":                   {args: []string{"--help"}, says: "kubectl controls the Kubernetes cluster manager"},
		"its version":                {args: []string{"version", "--client"}, says: "Client Version: "},
		"what needs services":        {args: []string{"--data-dir", s.Dir, "cluster-info"}, code: 1, says: "--profile kubernetes"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, code := harness.CLIWith(t, test.env, append([]string{"kubectl"}, test.args...)...); code != test.code || !strings.Contains(out, test.says) {
				t.Errorf("exit code %d, want %d, and %q in:\n%s", code, test.code, test.says, out)
			}
		})
	}
	t.Run("without a kubeconfig", func(t *testing.T) {
		// Each has one line of errors: not the log of clients that connect to localhost:8080.
		for _, args := range [][]string{{"get", "namespaces"}, {"api-resources"}, {"apply", "-f", filepath.Join(harness.Root(t), "config", "examples", "widgets.yaml")}} {
			out, code := harness.CLIWith(t, nil, append([]string{"kubectl", "--data-dir", elsewhere}, args...)...)
			if code != 1 || !strings.Contains(out, "no kubeconfig at "+elsewhere) || strings.Count(out, "\n") != 1 {
				t.Errorf("%v: exit code %d:\n%s", args, code, out)
			}
		}
		out, _ := harness.CLIWith(t, nil, "kubectl", "--data-dir", elsewhere, "get", "namespaces", "-v=1")
		harness.Contains(t, out, "couldn't get current server API group list")
		out, code := harness.CLIWith(t, []string{"KUBECONFIG=" + elsewhere}, "kubectl", "get", "namespaces")
		if code != 1 || !strings.Contains(out, "no server in KUBECONFIG="+elsewhere) || strings.Count(out, "\n") != 1 {
			t.Errorf("exit code %d:\n%s", code, out)
		}
		out = harness.Runs(t, harness.ExitOK, "kubectl", "--data-dir", elsewhere, "create", "configmap", "c", "--dry-run=client", "-o", "name")
		harness.Contains(t, out, "configmap/c")
	})
	t.Run("completion", func(t *testing.T) {
		out := harness.Runs(t, harness.ExitOK, "__complete", "kubectl", "--data-dir", s.Dir, "get", "namespace", "kube-pub")
		harness.Contains(t, out, "kube-public\n:4\n")
	})
	t.Run("a plugin", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("the plugin is a shell script")
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "kubectl-greet"), []byte("#!/bin/sh\necho \"$1 $KUBECONFIG\"\nexit 5\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		out, code := harness.CLIWith(t, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "kubectl", "--data-dir", s.Dir, "greet", "hello")
		if out != "hello "+s.Kubeconfig+"\n" || code != 5 {
			t.Errorf("exit code %d: %s", code, out)
		}
	})
}
