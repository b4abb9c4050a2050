package main

import (
	"errors"
	"fmt"
	"os"
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

// instance is a running controller.
type instance struct {
	t   *testing.T
	cmd *exec.Cmd
	log string
}

// launch starts the command with a log file, and ends it with the test.
func launch(t *testing.T, cmd *exec.Cmd) *instance {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	i := &instance{t, cmd, log.Name()}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // the test has failed
			_ = cmd.Wait()
		}
		_ = log.Close()
		if t.Failed() {
			t.Logf("%v:\n%s", cmd.Args, i.said())
		}
	})
	return i
}

func (i *instance) said() string {
	i.t.Helper()
	data, err := os.ReadFile(i.log)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(data)
}

func (i *instance) waitsFor(text string) {
	i.t.Helper()
	harness.Eventually(i.t, "the controller says "+text, func() error {
		if !strings.Contains(i.said(), text) {
			return errors.New("not yet")
		}
		return nil
	})
}

func (i *instance) stop() {
	i.t.Helper()
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		i.t.Fatal(err)
	}
	if err := i.cmd.Wait(); err != nil {
		i.t.Errorf("the controller ended with %v", err)
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
	first := launch(t, exec.Command(binary(t), "--name", "first", "--kubeconfig", kubeconfig))
	widget(t, s, "one", "first")
	leader := holder(t, s)
	if leader == "" {
		t.Error("no instance holds the lease")
	}
	second := launch(t, exec.Command(binary(t), "--name", "second", "--kubeconfig", kubeconfig))
	second.waitsFor("acquire leader lease")
	widget(t, s, "two", "first")
	if now := holder(t, s); now != leader {
		t.Errorf("the lease has moved from %s to %s", leader, now)
	}

	first.stop()
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
	second.stop()
	if now := holder(t, s); now != "" {
		t.Errorf("no instance runs, and %s holds the lease", now)
	}
}
