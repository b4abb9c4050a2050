package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// envtestChild makes this test program one that starts envtest and waits to be killed. It
// has the directory of the programs.
const envtestChild = "KHM_ENVTEST_CHILD"

// TestEnvtestOfAKilledTest: when a test program is killed, its kube-apiserver and etcd end,
// and the directories that envtest has made are removed.
func TestEnvtestOfAKilledTest(t *testing.T) {
	if assets := os.Getenv(envtestChild); assets != "" {
		waitForKill(t, assets)
		return
	}
	r := newRunTest(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnvtestOfAKilledTest$")
	cmd.Env = append(os.Environ(), envtestChild+"="+envtestAssets(t), "TMPDIR="+r.tmp, "SCRATCH="+r.scratch, r.mark)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // of a test that has failed
	started := filepath.Join(r.scratch, "started")
	harness.Eventually(t, "the child has started envtest", func() error {
		_, err := os.Stat(started)
		return err
	})
	if processes := r.processes(); len(processes) != 3 {
		t.Errorf("there are %d processes, want the test, kube-apiserver and etcd: %q", len(processes), processes)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	harness.Eventually(t, "the processes and directories are gone", func() error {
		// The test program itself has made a directory for certificates of webhooks.
		directories, err := filepath.Glob(filepath.Join(r.tmp, "k8s_test_framework_*"))
		if processes := r.processes(); err == nil && len(processes)+len(directories) > 0 {
			return fmt.Errorf("%q and %q are left", processes, directories)
		}
		return err
	})
}

// waitForKill starts envtest, writes the file started, and waits.
func waitForKill(t *testing.T, assets string) {
	t.Helper()
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: harness.Patience}
	if _, err := environment.Start(); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(os.Getenv("SCRATCH"), "started"), "")
	select {}
}
