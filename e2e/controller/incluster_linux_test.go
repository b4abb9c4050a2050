package main

import (
	"os/exec"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// inCluster runs a program with in-cluster configuration. Where this user may not make
// namespaces, the program gets the kubeconfig.
func inCluster(t *testing.T, s *harness.Server, kubeconfig, program string, args ...string) *exec.Cmd {
	t.Helper()
	command := []string{"in-cluster", "--data-dir", s.Dir, "--service-account", "widgets-system/widgets", "--"}
	if out, code := harness.CLI(t, append(command, "true")...); code != 0 {
		t.Logf("the second instance gets a kubeconfig as well:\n%s", out)
		return exec.Command(program, append(args, "--kubeconfig", kubeconfig)...)
	}
	return exec.Command(harness.Binary(t), append(append(command, program), args...)...)
}
