package aggregation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const (
	walkThrough = "### An aggregated API server in two commands"
	script      = "config/examples/sample-apiserver.sh"
	manifest    = "config/examples/sample-apiserver.yaml"
)

// TestWalkThrough runs the README's commands as they are written, on free
// ports.
func TestWalkThrough(t *testing.T) {
	buildForScript(t)
	e := newEnvironment(t)
	port := harness.FreePort(t)
	content := readFile(t, filepath.Join(harness.Root(t), manifest))
	ours := writeFile(t, "sample-apiserver.yaml", strings.ReplaceAll(content, "https://127.0.0.1:4443", target(port)))
	var server *process
	entered := 0
	for _, command := range harness.Console(t, walkThrough) {
		fields := strings.Fields(command.Line)
		for i, field := range fields {
			switch {
			case field == manifest:
				fields[i] = ours
			case strings.HasPrefix(field, "config/examples/"):
				fields[i] = filepath.Join(harness.Root(t), field)
			}
		}
		switch program := fields[0]; {
		case program == "kubectl":
			entered++
			// A reader is not as fast as the test.
			harness.Eventually(t, command.Line+" shows what the README does", func() error {
				out, err := e.TryKubectl("", fields[1:]...)
				if err == nil && !command.Shown(out) {
					err = errors.New("something else")
				}
				if err != nil {
					return fmt.Errorf("%w:\n%s", err, out)
				}
				return nil
			})
		case strings.HasSuffix(program, script):
			entered++
			t.Setenv("KUBECONFIG", e.Kubeconfig)
			server = start(t, program, fmt.Sprint(port), fmt.Sprint(harness.FreePort(t)), fmt.Sprint(harness.FreePort(t)))
		default:
			t.Fatalf("the README has a command that the test does not know: %s", command.Line)
		}
	}
	if server == nil || entered < 4 {
		t.Fatalf("the README has only %d commands", entered)
	}
	server.stop(syscall.SIGINT) // Ctrl-C
	e.waitAvailable(wardle, "False", "FailedConnection")
	e.waitReachable("wardle", "api", "0/1")
}

// buildForScript has the script find what it builds: that may take longer than
// a test waits for a server.
func buildForScript(t *testing.T) {
	t.Helper()
	root := harness.Root(t)
	for _, args := range [][]string{
		{"-C", root, "run", ".", "version"},
		{"-C", filepath.Join(root, "e2e"), "tool", "-n", "go.etcd.io/etcd/server/v3"},
		{"-C", filepath.Join(root, "e2e"), "tool", "-n", "sample-apiserver"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
}
