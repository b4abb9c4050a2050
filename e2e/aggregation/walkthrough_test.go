package aggregation

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const (
	script   = "config/examples/sample-apiserver.sh"
	manifest = "config/examples/sample-apiserver.yaml"
)

// TestWalkThrough runs the commands of the help topic as they are written, on free
// ports.
func TestWalkThrough(t *testing.T) {
	t.Parallel()
	buildForScript(t)
	e := newEnvironment(t)
	port := harness.FreePort(t)
	content := string(harness.ReadFile(t, filepath.Join(harness.Root(t), manifest)))
	ours := filepath.Join(t.TempDir(), "sample-apiserver.yaml")
	harness.WriteFile(t, ours, strings.ReplaceAll(content, "https://127.0.0.1:4443", target(port)))
	session := harness.NewSession(t, e.Server)
	session.Replace = strings.NewReplacer(manifest, ours, script, fmt.Sprint(filepath.Join(harness.Root(t), script), " ", port, " ", harness.FreePort(t), " ", harness.FreePort(t)))
	commands := harness.Commands(t, harness.Topic("aggregation"), "")
	if len(commands) < 6 {
		t.Fatalf("the topic has only %d commands", len(commands))
	}
	for _, command := range commands {
		session.Enter(command)
	}
	e.waitUnreachable(wardle)
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
