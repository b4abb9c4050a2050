package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestControllerOfManyPlanes: the example of help planes, one program with multicluster-runtime,
// keeps an object in each control plane, and wakes one that sleeps when its object has gone.
func TestControllerOfManyPlanes(t *testing.T) {
	t.Parallel()
	program := harness.Build(t, filepath.Join(harness.Root(t), "config", "examples", "planes", "controller"), ".", "example-planes-controller", "-ldflags", "-s -w")
	file := filepath.Join(t.TempDir(), "config.yaml")
	const config = "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\nplanes: {enabled: true, sleepAfter: 1s}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := harness.Start(t, "--config", file)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	launch(t, cmd)
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
	names := []string{"a", "b", "c"}
	for _, name := range names {
		s.Kubectl(fmt.Sprintf("{apiVersion: planes.kube-hyper-mini.io/v1alpha1, kind: ControlPlane, metadata: {name: %s}}", name), "apply", "-f", "-")
	}
	for _, name := range names {
		greeted(name)
	}
	for _, name := range names {
		s.Await("jsonpath={.status.phase}=Asleep", "controlplane", name)
	}
	s.Kubectl("", s.InPlane("b", "delete", "configmap", "greeting")...)
	greeted("b")
}
