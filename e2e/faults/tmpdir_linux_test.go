package faults

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestRunInAFullTemporaryDirectory: `run` reports a temporary directory that is full
// before the start or while COMMAND runs. No process and no file is left.
func TestRunInAFullTemporaryDirectory(t *testing.T) {
	if !mayMount(t) {
		return
	}
	for name, test := range map[string]struct {
		megabytes int
		args      []string
		says      []string // one of them
	}{
		"before the start": {16, []string{"--", "echo", "never"}, []string{"not enough room on the disk: the temporary directory %s has"}},
		// The server refuses writes, or it ends when a write fails.
		"by the command": {64, []string{"--", "sh", "-c", `cat /dev/zero >"$TMPDIR/filler" 2>/dev/null
				while "$BINARY" kubectl create configmap "of-$((i += 1))" --from-file=/bin/sh; do :; done >/dev/null; rm "$TMPDIR/filler"; exit 1`},
			[]string{"the disk of %s", "no space left on device"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t, test.megabytes)
			mark := "FAULT_MARK=" + d.path
			cmd := exec.Command(harness.Binary(t), append([]string{"run"}, test.args...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+d.path, "HOME="+t.TempDir(), "BINARY="+harness.Binary(t), mark)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != harness.ExitFailure {
				t.Errorf("it ended with %d", code)
			}
			if strings.Contains(string(out), "never") || !slices.ContainsFunc(test.says, func(text string) bool {
				return strings.Contains(string(out), strings.ReplaceAll(text, "%s", d.path))
			}) {
				t.Errorf("%q is not in: %s", test.says, out)
			}
			_ = os.Remove(d.filler()) // of a command that was ended
			if entries, err := os.ReadDir(d.path); err != nil || len(entries) > 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
			if processes := marked(t, mark); len(processes) > 0 {
				t.Errorf("processes are left: %q", processes)
			}
		})
	}
}

// marked lists the processes with the text in their environment.
func marked(t *testing.T, mark string) (list []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		environment, err := os.ReadFile(file)
		if err == nil && bytes.Contains(environment, []byte(mark)) { // it may have ended
			list = append(list, filepath.Dir(file))
		}
	}
	return list
}
