//go:build !linux

package main

import (
	"os/exec"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// inCluster gives the program the kubeconfig where there are no mount namespaces.
func inCluster(t *testing.T, s *harness.Server, kubeconfig, program string, args ...string) *exec.Cmd {
	t.Helper()
	want := "in-cluster needs the mount namespaces of Linux"
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "in-cluster", "--data-dir", s.Dir, "--service-account", "widgets-system/widgets", "--", program), want)
	return exec.Command(program, append(args, "--kubeconfig", kubeconfig)...)
}
