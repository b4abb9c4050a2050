package faults

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestRunInAFullTemporaryDirectory: `run` reports a full temporary directory
// before it creates a server.
func TestRunInAFullTemporaryDirectory(t *testing.T) {
	if !inside(t) {
		return
	}
	d := newDisk(t, 16)
	cmd := exec.Command(harness.Binary(t), "run", "--", "echo", "never")
	cmd.Env = append(os.Environ(), "TMPDIR="+d.path)
	out, err := cmd.CombinedOutput()
	if exit := (&exec.ExitError{}); !errors.As(err, &exit) || exit.ExitCode() != harness.ExitFailure {
		t.Errorf("it ended with %v", err)
	}
	for _, part := range []string{"not enough room on the disk", "the temporary directory " + d.path, "set TMPDIR"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("%q is not in: %s", part, out)
		}
	}
	if entries, err := os.ReadDir(d.path); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
