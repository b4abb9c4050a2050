package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestControllerOfManyPlanes: the example of help planes, one program with multicluster-runtime,
// keeps an object in each control plane, and wakes one that sleeps when its object has gone.
func TestControllerOfManyPlanes(t *testing.T) {
	t.Parallel()
	program := harness.Build(t, filepath.Join(harness.Root(t), "config", "examples", "planes", "controller"), ".", "example-planes-controller", "-ldflags", "-s -w")
	s := harness.Start(t, "--config", harness.ConfigFile(t, "planes: {enabled: true, sleepAfter: 1s}\n"))
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	harness.StartProcess(t, cmd)
	greeted := func(name string) {
		t.Helper()
		harness.Eventually(t, "the control plane "+name+" has its config map", func() error {
			text, err := s.TryKubectl("", s.InPlane(name, "get", "configmap", "greeting", "-o", "jsonpath={.data.text}")...)
			if err == nil && text != "hello, "+name {
				err = fmt.Errorf("its text is %q", text)
			}
			return err
		})
	}
	var names []string
	for i := range number(t) {
		names = append(names, fmt.Sprintf("plane-%d", i))
	}
	began := time.Now()
	for _, name := range names {
		s.Kubectl(fmt.Sprintf("{apiVersion: planes.kube-hyper-mini.io/v1alpha1, kind: ControlPlane, metadata: {name: %s}}", name), "apply", "-f", "-")
	}
	for _, name := range names {
		greeted(name)
	}
	t.Logf("%d control planes have it after %s", len(names), time.Since(began).Round(time.Second))
	for _, name := range names {
		s.Await("jsonpath={.status.phase}=Asleep", "controlplane", name)
	}
	t.Logf("asleep, the controller takes %d MB of memory, and the server %d MB", resident(t, cmd.Process.Pid), resident(t, s.PID()))
	s.Kubectl("", s.InPlane(names[1], "delete", "configmap", "greeting")...)
	greeted(names[1])
}

// number returns the number of control planes: that in PLANES_CONTROLLED, or 3.
func number(t *testing.T) int {
	t.Helper()
	text := os.Getenv("PLANES_CONTROLLED")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 {
		t.Fatalf("PLANES_CONTROLLED=%q is not a number from 2 on", text)
	}
	return n
}

// resident returns the resident memory of a process in MB; 0 where the system does not say.
func resident(t *testing.T, pid int) (megabytes int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if os.IsNotExist(err) {
		return 0
	}
	var size, pages int
	if _, scanErr := fmt.Sscan(string(data), &size, &pages); err != nil || scanErr != nil {
		t.Fatal(err, scanErr)
	}
	return pages * os.Getpagesize() >> 20
}
