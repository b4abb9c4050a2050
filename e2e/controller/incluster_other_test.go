//go:build !linux

package main

import (
	"os/exec"
	"testing"
)

// inCluster gives the program the kubeconfig where there are no mount
// namespaces.
func inCluster(t *testing.T, _, kubeconfig, program string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(program, append(args, "--kubeconfig", kubeconfig)...)
}
