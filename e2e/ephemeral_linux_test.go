package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// startEphemeral starts `server --ephemeral` without a data directory, and returns its
// kubeconfig when it is ready.
func startEphemeral(t *testing.T, r *runTest) (cmd *exec.Cmd, kubeconfig string) {
	t.Helper()
	cmd = r.program("server", "--ephemeral", "--port", "0")
	errs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // of a test that has failed
	ready := 0
	var log strings.Builder
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), harness.ReadyLine) {
			ready++
		}
		if _, path, found := strings.Cut(lines.Text(), "kubectl --kubeconfig "); found {
			if ready != 1 {
				t.Errorf("%d lines say that it is ready:\n%s", ready, log.String())
			}
			go func() { _, _ = errs.Read(make([]byte, 1<<20)) }() // what it writes at its end
			return cmd, strings.TrimSuffix(path, " get namespaces")
		}
	}
	t.Fatalf("it ended before it was ready:\n%s", log.String())
	return nil, ""
}

// TestEphemeralServer: it works, and no process, file or port is left when it ends or
// is killed.
func TestEphemeralServer(t *testing.T) {
	// With a handler here, the server does not inherit that SIGHUP is ignored, as by nohup.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	for name, end := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"terminated": {syscall.SIGTERM, 0}, "hung up": {syscall.SIGHUP, 0}, "killed": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			r := newRunTest(t)
			cmd, kubeconfig := startEphemeral(t, r)
			if out, err := harness.Run(t, "", harness.KubectlBinary(t), "--kubeconfig", kubeconfig, "create", "configmap", "one"); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			server := r.server(kubeconfig)
			if err := cmd.Process.Signal(end.signal); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != end.code {
				t.Errorf("it ended with %d, want %d", code, end.code)
			}
			harness.Eventually(t, "nothing is left", r.left)
			if server.listens() {
				t.Error("its port is still open")
			}
		})
	}
}

// TestEphemeralServerInADirectory: its commands work there; the directory is empty at
// the end, and what a killed server has left is not used again.
func TestEphemeralServerInADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := harness.StartIn(t, dir, "--ephemeral")
	s.Kubectl("", "create", "configmap", "one")
	harness.Contains(t, s.Status(), "ready", dir)
	s.Kill()
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "server", "--data-dir", dir, "--port", "0"), "left by a server with --ephemeral that was killed", "start with --ephemeral again")
	s = harness.StartIn(t, dir, "--ephemeral")
	if out, err := s.TryKubectl("", "get", "configmap", "one"); err == nil || !strings.Contains(out, "NotFound") {
		t.Errorf("it begins with the objects of the killed one: %v\n%s", err, out)
	}
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("it ended with exit code %d", code)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if problems := harness.Problems(s.Log()); problems != "" {
		t.Errorf("warnings:\n%s", problems)
	}
}
