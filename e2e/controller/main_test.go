package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func binary(t *testing.T) string {
	t.Helper()
	return harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "./controller", "controller")
}

// stops ends a controller as its environment does.
func stops(t *testing.T, controller *harness.Process) {
	t.Helper()
	if code := controller.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the controller ended with exit code %d", code)
	}
}

// holder returns the name of the instance that holds the lease.
func holder(t *testing.T, s *harness.Server) string {
	t.Helper()
	lease, err := s.Client().CoordinationV1().Leases("widgets-system").Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// widget makes one and waits until the named instance has taken it up.
func widget(t *testing.T, s *harness.Server, name, by string) {
	t.Helper()
	s.Kubectl(fmt.Sprintf("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: %s}\nspec: {size: 4}\n", name), "create", "-n", "default", "-f", "-")
	harness.Eventually(t, by+" has taken up widget "+name, func() error {
		configMap, err := s.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "widget-"+name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if configMap.Data["size"] != "4" || configMap.Data["by"] != by {
			t.Fatalf("the config map of widget %s has %v", name, configMap.Data)
		}
		return nil
	})
}

// TestLeadership: of two instances of a controller outside, one works at a time.
func TestLeadership(t *testing.T) {
	examples := filepath.Join(harness.Root(t), "config", "examples")
	s := harness.Start(t)
	s.Kubectl("", "apply", "-f", filepath.Join(examples, "widgets.yaml"), "-f", filepath.Join(examples, "controller.yaml"))
	s.Await("condition=Established", "crd/widgets.example.com")
	kubeconfig := filepath.Join(t.TempDir(), "widgets.kubeconfig")
	if out, code := harness.CLI(t, "kubeconfig", "create", "--data-dir", s.Dir, "--service-account", "widgets-system/widgets", "--output", kubeconfig); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	first := harness.StartProcess(t, exec.Command(binary(t), "--name", "first", "--kubeconfig", kubeconfig))
	widget(t, s, "one", "first")
	leader := holder(t, s)
	if leader == "" {
		t.Error("no instance holds the lease")
	}
	second := harness.StartProcess(t, exec.Command(binary(t), "--name", "second", "--kubeconfig", kubeconfig))
	harness.Eventually(t, "the second waits for the lease", func() error {
		if !strings.Contains(second.Log(), "acquire leader lease") {
			return errors.New("not yet")
		}
		return nil
	})
	widget(t, s, "two", "first")
	if now := holder(t, s); now != leader {
		t.Errorf("the lease has moved from %s to %s", leader, now)
	}

	stops(t, first)
	widget(t, s, "three", "second")
	if now := holder(t, s); now == "" || now == leader {
		t.Errorf("the second works, and the lease is held by %q", now)
	}
	// What the controller owns goes with the widget.
	s.Kubectl("", "delete", "widget", "one", "-n", "default")
	harness.Eventually(t, "the config map of widget one is gone", func() error {
		_, err := s.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "widget-one", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
	if out := s.Kubectl("", "get", "events", "-n", "widgets-system", "-o", "jsonpath={.items[*].message}"); !strings.Contains(out, "became leader") {
		t.Errorf("the events do not tell who leads: %s", out)
	}
	stops(t, second)
	if now := holder(t, s); now != "" {
		t.Errorf("no instance runs, and %s holds the lease", now)
	}
}
