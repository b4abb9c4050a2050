package packaging

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

var widgetResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
`

func widget(name, namespace string) string {
	return fmt.Sprintf("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: %s, namespace: %s}\nspec: {size: 1}\n", name, namespace)
}

func namespace(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

// platform is a directory of manifests and the configuration that names it.
type platform struct {
	t           *testing.T
	dir, config string
}

func newPlatform(t *testing.T, prune, wait bool, more ...string) platform {
	t.Helper()
	p := platform{t: t, dir: filepath.Join(t.TempDir(), "manifests")}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.config = harness.ConfigFile(t, fmt.Sprintf("manifests: {dir: %q, prune: %t, waitForReady: %t%s}\n", p.dir, prune, wait, strings.Join(more, "")))
	return p
}

func (p platform) write(name, content string) {
	p.t.Helper()
	// Whole: half of it is another manifest. The server does not look at files
	// with a dot.
	draft := filepath.Join(p.dir, ".draft")
	if err := os.WriteFile(draft, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(draft, filepath.Join(p.dir, name)); err != nil {
		p.t.Fatal(err)
	}
}

func (p platform) remove(name string) {
	p.t.Helper()
	if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
		p.t.Fatal(err)
	}
}

// gone waits until kubectl does not find the object.
func gone(t *testing.T, s *harness.Server, args ...string) {
	t.Helper()
	harness.Eventually(t, strings.Join(args, " ")+" is gone", func() error {
		if out, err := s.TryKubectl("", append([]string{"get"}, args...)...); err == nil || !strings.Contains(out, "not found") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func TestManifestsAreAppliedBeforeReady(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, false, true)
	// The object's file comes before that of its namespace and of its CRD.
	p.write("10-widget.yaml", widget("a", "team"))
	p.write("20-platform.yaml", namespace("team")+"---\n"+widgets)
	s := harness.Start(t, "--config", p.config)
	out := s.Kubectl("", "get", "widgets", "-n", "team", "a", "-o", "jsonpath={.metadata.managedFields[0].manager}", "--show-managed-fields")
	if out != "kube-hyper-mini-manifests" {
		t.Errorf("the field manager is %q", out)
	}

	// Another manager's fields stay, a changed manifest is applied, and a
	// removed one leaves its object.
	s.Kubectl("", "label", "widget", "-n", "team", "a", "owner=me")
	p.write("10-widget.yaml", strings.Replace(widget("a", "team"), "size: 1", "size: 2", 1))
	harness.Eventually(t, "the change is applied", func() error {
		out := s.Kubectl("", "get", "widget", "-n", "team", "a", "-o", "jsonpath={.spec.size} {.metadata.labels.owner}")
		if out != "2 me" {
			return errors.New(out)
		}
		return nil
	})
	p.remove("10-widget.yaml")
	p.write("30-next.yaml", widget("b", "team"))
	harness.Eventually(t, "the next one is applied", func() error {
		_, err := s.TryKubectl("", "get", "widget", "-n", "team", "b")
		return err
	})
	s.Kubectl("", "get", "widget", "-n", "team", "a")

	// The next start undoes changes of managed fields.
	s.Kubectl("", "delete", "widget", "-n", "team", "b")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with %d", code)
	}
	s = harness.StartIn(t, s.Dir, "--config", p.config)
	s.Kubectl("", "get", "widget", "-n", "team", "b")
}

// TestBrokenManifestDoesNotBlockOthers: the server is ready with what can be
// applied, and reports what cannot.
func TestBrokenManifestDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, false, true)
	p.write("10-widget.yaml", widget("a", "team")) // its namespace comes later
	p.write("20-broken.yaml", "kind: [\n")
	p.write("30-platform.yaml", namespace("team")+"---\n"+widgets)
	s := harness.Start(t, "--config", p.config)
	s.Kubectl("", "get", "widget", "-n", "team", "a")
	harness.Contains(t, s.Status(), "manifests", "FAILED: 20-broken.yaml: not valid YAML")
	harness.Contains(t, s.Kubectl("", "get", "--raw", "/metrics"), "\nkube_hyper_mini_manifests_failures 1\n")
	harness.Contains(t, s.Log(), "20-broken.yaml: not valid YAML")
	p.remove("20-broken.yaml")
	harness.Eventually(t, "the failure is gone", func() error {
		if out := s.Kubectl("", "get", "--raw", "/metrics"); !strings.Contains(out, "\nkube_hyper_mini_manifests_failures 0\n") {
			return errors.New("it is not")
		}
		return nil
	})
}

func TestRequiredManifestsDelayReady(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, false, true, ", required: true")
	p.write("10-namespace.yaml", namespace("team"))
	p.write("20-broken.yaml", "kind: [\n")
	p.write("30-nonsense.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: team}\ndata: {key: {not: a string}}\n")
	s := harness.Launch(t, filepath.Join(t.TempDir(), "data"), "--config", p.config)
	harness.Eventually(t, "the log names both files", func() error {
		for _, want := range []string{"20-broken.yaml: not valid YAML", "30-nonsense.yaml: apply ConfigMap team/x"} {
			if !strings.Contains(s.Log(), want) {
				return errors.New(s.Log())
			}
		}
		return nil
	})
	// The API works meanwhile, what can be applied is, and status has the reason
	// the server is not ready.
	s.Kubectl("", "get", "namespace", "team")
	if out, code := harness.CLI(t, "status", "--data-dir", s.Dir); code != 3 || !strings.Contains(out, "20-broken.yaml") {
		t.Errorf("status: exit code %d\n%s", code, out)
	}
	// It can be stopped while it waits.
	if code := s.Stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.Log())
	}
	s = harness.Launch(t, s.Dir, "--config", p.config)
	p.write("20-broken.yaml", namespace("other"))
	p.write("30-nonsense.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: team}\ndata: {key: value}\n")
	s.WaitReady()
	s.Kubectl("", "get", "configmap", "-n", "team", "x")
	s.Kubectl("", "get", "namespace", "other")
}

func TestReadyWithoutWaitingForManifests(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, false, false)
	p.write("broken.yaml", "{")
	s := harness.Start(t, "--config", p.config)
	s.Kubectl("", "get", "namespaces")
}

func TestPruneDeletesObjectsOfRemovedManifests(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, true, true)
	p.write("10.yaml", namespace("team")+"---\n"+widgets)
	p.write("20.yaml", widget("mine", "team"))
	p.write("30.yaml", widget("taken", "team"))
	s := harness.Start(t, "--config", p.config)
	s.Kubectl(widget("foreign", "team"), "apply", "-f", "-")
	harness.Eventually(t, "the inventory is written", func() error {
		_, err := s.TryKubectl("", "get", "configmap", "-n", "kube-system", "kube-hyper-mini-manifests")
		return err
	})
	// Another manager takes an object over: pruning must not remove it.
	taken := s.Dynamic().Resource(widgetResource).Namespace("team")
	object, err := taken.Get(context.Background(), "taken", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // as server-side apply's documentation clears them
	if _, err := taken.Update(context.Background(), object, metav1.UpdateOptions{FieldManager: "other"}); err != nil {
		t.Fatal(err)
	}

	// Nothing is pruned while a file is broken.
	p.remove("30.yaml")
	p.write("20.yaml", "{")
	harness.Eventually(t, "the failure is logged", func() error {
		if !strings.Contains(s.Log(), "20.yaml: not valid YAML") {
			return errors.New(s.Log())
		}
		return nil
	})
	s.Kubectl("", "get", "widget", "-n", "team", "mine", "taken")
	p.remove("20.yaml")
	gone(t, s, "widget", "-n", "team", "mine")
	s.Kubectl("", "get", "widget", "-n", "team", "taken", "foreign")

	// An empty directory is a mistake.
	p.remove("10.yaml")
	harness.Eventually(t, "the empty directory is refused", func() error {
		if !strings.Contains(s.Log(), "has no manifests: no object") {
			return errors.New(s.Log())
		}
		return nil
	})
	s.Kubectl("", "get", "namespace", "team")
}

func TestMissingManifestsDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, false, true)
	if err := os.Remove(p.dir); err != nil {
		t.Fatal(err)
	}
	if out, code := harness.CLI(t, "config", "validate", p.config); code != 2 || !strings.Contains(out, "config.yaml:3: manifests.dir") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
