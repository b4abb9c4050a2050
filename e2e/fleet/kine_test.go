package fleet

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// kine runs kine on a new SQLite database and returns its URL. At the end of the
// test nothing that the server has asked of it may be unsupported, except for
// the snapshot of a backup.
func kine(t *testing.T) string {
	t.Helper()
	binary := harness.Build(t, filepath.Join(harness.Root(t), "e2e", "kine"), ".", "kine")
	address := harness.FreeAddress(t)
	p := harness.StartProcess(t, exec.Command(binary, "-listen", address, "-database", filepath.Join(t.TempDir(), "kine.db")))
	t.Cleanup(func() {
		p.Stop(syscall.SIGTERM)
		if strings.Contains(p.Log(), "not implemented") {
			t.Errorf("kine says:\n%s", p.Log())
		}
	})
	return "http://" + address
}

// TestKine: a server on kine serves what the one on etcd does.
func TestKine(t *testing.T) {
	t.Parallel()
	config := onEtcd(t, []string{kine(t)}, "backup: {schedule: \"\"}\n")
	s := harness.StartIn(t, filepath.Join(t.TempDir(), "data"), "--config", config)
	createNamespace(t, s, "team")
	populated(t, s, "team")

	objectsOnKine(t, s)
	if !createCRD(t, s, "widgets") {
		t.Error("a server that is alone leaves a new CRD waiting")
	}
	s.Kubectl("{apiVersion: example.com/v1, kind: Awidgets, metadata: {name: w, namespace: team}}", "create", "-f", "-")
	s.Kubectl("", "create", "quota", "some", "-n", "team", "--hard=count/widgets.example.com=2,configmaps=9")
	s.Await(`jsonpath={.status.used.count/widgets\.example\.com}=1`, "quota/some", "-n", "team")
	s.Kubectl("", "create", "secret", "generic", "s", "-n", "team", "--from-literal=key=value")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "encryption", "rotate", "--data-dir", s.Dir, "--config", config), "rotated: 1 object rewritten")
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "backup", "save", "--data-dir", s.Dir, "--config", config), "makes no snapshots", "back up its database")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "certs", "revoke-admin", "--data-dir", s.Dir, "--config", config), "by this server")
	noComplaints(t, s)
	if code := s.Stop(); code != harness.ExitOK {
		t.Fatalf("the server ended with exit code %d", code)
	}

	s = harness.StartIn(t, s.Dir, "--config", config)
	if out := s.Kubectl("", "get", "secret", "s", "-n", "team", "-o", "jsonpath={.data.key}"); out != "dmFsdWU=" {
		t.Errorf("after a restart the secret reads %q", out)
	}
	if out := s.Kubectl("", "get", "widgets.example.com", "-n", "team", "-o", "name"); !strings.Contains(out, "/w") {
		t.Errorf("after a restart the custom resources are %q", out)
	}
	s.Kubectl("", "delete", "namespace", "team")
	if out, err := s.TryKubectl("", "get", "widgets.example.com", "-n", "team", "w"); err == nil {
		t.Errorf("the namespace is gone and its objects are not: %s", out)
	}
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	noComplaints(t, s)
}

// noComplaints leaves out the snapshot that kine refuses, and conflicts, after
// which the controllers try again.
func noComplaints(t *testing.T, s *harness.Server) {
	t.Helper()
	for line := range strings.Lines(harness.Problems(s.Log())) {
		if !strings.Contains(line, "snapshot") && !strings.Contains(line, "the object has been modified") {
			t.Errorf("the server complains: %s", line)
		}
	}
}

// objectsOnKine writes, watches and collects objects.
func objectsOnKine(t *testing.T, s *harness.Server) {
	t.Helper()
	maps := s.Client().CoreV1().ConfigMaps("team")
	s.Kubectl("", "create", "configmap", "owner", "-n", "team", "--from-literal=n=0")
	owner, err := maps.Get(t.Context(), "owner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: owner.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	s.Kubectl("", "patch", "configmap", "owner", "-n", "team", "--type=merge", "-p", `{"data":{"n":"1"}}`)
	s.Kubectl(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: dependent, namespace: team,
		ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]}}`, owner.UID), "create", "-f", "-")
	s.Kubectl("", "delete", "configmap", "owner", "-n", "team")
	for _, want := range []string{"MODIFIED owner", "ADDED dependent", "DELETED owner", "DELETED dependent"} {
		event, open := <-events.ResultChan()
		if !open {
			t.Fatal("the watch has ended")
		}
		if got := describeEvent(event); got != want {
			t.Fatalf("the watch says %s, want %s", got, want)
		}
	}
	if _, err := maps.Get(t.Context(), "dependent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the dependent: %v", err)
	}
	pages := s.Kubectl("", "get", "clusterroles", "--chunk-size=7", "-o", "name")
	if whole := s.Kubectl("", "get", "clusterroles", "--chunk-size=0", "-o", "name"); pages != whole || whole == "" {
		t.Errorf("a list by pages has\n%s\nand not\n%s", pages, whole)
	}
}

func describeEvent(event watch.Event) string {
	object, ok := event.Object.(metav1.Object)
	if !ok {
		return fmt.Sprintf("%s %v", event.Type, event.Object)
	}
	return fmt.Sprintf("%s %s", event.Type, object.GetName())
}
