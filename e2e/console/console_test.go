package console

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

var databases = schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1", Resource: "databases"}

// shared is for tests that only read what [fill] makes, or need any server.
var (
	shared  harness.Shared
	filling sync.Once
)

func TestMain(m *testing.M) {
	code := shared.Run(m)
	endChromium()
	os.Exit(code)
}

// read returns the shared server, filled.
func read(t *testing.T) *harness.Server {
	t.Helper()
	s := shared.Server(t)
	filling.Do(func() { fill(t, s) })
	return s
}

// filled is a server with the CRDs and objects of testdata, a volume that a
// database owns, and conditions.
func filled(t *testing.T) *harness.Server {
	t.Helper()
	s := harness.Start(t)
	fill(t, s)
	return s
}

// fill makes them.
func fill(t *testing.T, s *harness.Server) {
	t.Helper()
	s.Kubectl("", "apply", "-f", "testdata/crds.yaml")
	s.Kubectl("", "apply", "-f", "testdata/objects.yaml")
	orders, err := s.Dynamic().Resource(databases).Namespace("shop").Get(t.Context(), "orders", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Kubectl(`apiVersion: cloud.example.org/v1
kind: Volume
metadata:
  name: orders-data
  namespace: shop
  ownerReferences: [{apiVersion: cloud.example.org/v1, kind: Database, name: orders, uid: `+string(orders.GetUID())+`, controller: true}]
`, "create", "-f", "-")
	s.Kubectl("", "patch", "database", "orders", "-n", "shop", "--subresource=status", "--type=merge", "-p",
		`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Creating","message":"the <b>database</b> is being created","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Synced","status":"True","reason":"ReconcileSuccess","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
}

// TestPages: each page shows what the server holds, and what objects contain is
// text.
func TestPages(t *testing.T) {
	t.Parallel()
	s := read(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.lacks("Control planes") // the server has none
	p.sees("Overview", "Kubernetes", "kube-hyper-mini", "Database", "ready", "from CRDs", "Last backup", "Journal", "Certificates", "Requests per second", "Warnings and events")
	p.visit("#/types")
	p.fill("Filter types", "cloud.example")
	p.sees("2 of", "cloud.example.org", "Database", "Volume", "v1, v1beta1", "namespaced")
	p.fill("Filter types", "")
	p.sees("With objects", "All groups", "▸ core")
	p.lacks("LimitRange")
	p.click("▸ core")
	p.sees("▾ core", "ConfigMap")
	p.visit("#/types?show=populated") // the server has counted
	p.sees("Database")
	p.lacks("LimitRange")
	p.visit("#/objects/cloud.example.org/v1/databases")
	p.sees("orders", "users", "postgres", "2 objects", "Engine")
	if title := evaluate[string](p, "document.title"); title != "databases – kube-hyper-mini" {
		t.Errorf("the title is %q", title)
	}
	p.fill("Label selector", "app=users")
	p.lacks("orders")
	p.visit("#/object/cloud.example.org/v1/databases/shop/orders")
	p.sees("orders", "Conditions", "not ready: Creating", "the <b>database</b> is being created", "Spec", "engine", "orders-data")
	p.click("UID, version, 2 annotations")
	p.sees("onerror=")
	p.click("YAML")
	p.sees("engine: postgres", "<script>")
	p.click("Relations")
	p.sees("orders-data", "orders-log")
	p.click("Managers")
	p.sees("kubectl")
	p.click("Events")
	p.sees("No events")
	p.visit("#/schema/cloud.example.org/v1/databases")
	p.sees("Database is a database of the cloud.", "Engine is the program that stores.", "one of postgres, mysql")
	p.click("▸ network")
	p.sees("Subnets that may connect.")
	p.visit("#/schema/cloud.example.org/v1/databases?compare=v1beta1")
	p.sees("spec.gigabytes", "spec.size")
	p.visit("#/access")
	p.sees("Who may", "system:masters", "Subject")
	if evaluate[bool](p, "!!window.hacked") {
		t.Error("markup of an object was run")
	}
	foreign := evaluate[[]string](p, `performance.getEntriesByType("resource").map((e) => e.name).filter((name) => !name.startsWith(location.origin + "/") && !name.startsWith("data:"))`)
	if len(foreign) > 0 {
		t.Errorf("the page has asked other servers: %q", foreign)
	}
}

// TestLive: changes by others appear without a reload.
func TestLive(t *testing.T) {
	t.Parallel()
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/objects/cloud.example.org/v1/databases?ns=shop")
	p.sees("2 objects")
	s.Kubectl("apiVersion: cloud.example.org/v1\nkind: Database\nmetadata: {name: late, namespace: shop}\nspec: {engine: mysql, size: 77}\n", "create", "-f", "-")
	p.sees("3 objects", "late", "77")
	s.Kubectl("", "delete", "database", "late", "-n", "shop")
	p.lacks("late")
	p.visit("#/object/cloud.example.org/v1/databases/shop/users?tab=yaml")
	p.sees("size: 5")
	s.Kubectl("", "patch", "database", "users", "-n", "shop", "--type=merge", "-p", `{"spec":{"size":6}}`)
	p.sees("size: 6")
	p.run("reload", reload())
	p.sees("size: 6")
}

// TestSecrets: values are masked until they are requested.
func TestSecrets(t *testing.T) {
	t.Parallel()
	s := read(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/object/core/v1/secrets/shop/password?tab=yaml")
	p.sees("word: ••••••")
	p.lacks("Y29ycmVjdCBob3JzZQ==")
	p.click("show secret values")
	p.sees("Y29ycmVjdCBob3JzZQ==")
	p.visit("#/object/core/v1/secrets/shop/password")
	p.sees("Keys", "word", "••••••", "UID, version")
	p.click("UID, version, 1 annotation")
	p.sees("kubectl.kubernetes.io/last-applied-configuration")
	p.lacks("correct horse")
	p.run("show the value", clickIn(`[aria-label="Show word"]`))
	p.sees("correct horse")
	p.visit("#/edit/core/v1/secrets/shop/password")
	p.sees("The editor shows the values of this Secret")
	p.lacks("Y29ycmVjdCBob3JzZQ==")
	p.click("Show the values")
	p.sees("Y29ycmVjdCBob3JzZQ==")
}

// TestCreateEditDelete: with a review, the fields of others, and what the server refuses.
func TestCreateEditDelete(t *testing.T) {
	t.Parallel()
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/new/cloud.example.org/v1/databases?ns=shop")
	p.sees("kind: Database", "engine:", "size:") // what the schema requires
	p.write("apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: made\n  namespace: shop\nspec:\n  size: 1\n  engine: ")
	p.run("ask for values", chromedp.KeyEvent(" ", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.await("the values are offered", func() error {
		if offered := evaluate[string](p, `document.querySelector(".cm-tooltip-autocomplete")?.innerText ?? ""`); !strings.Contains(offered, "mysql") {
			return fmt.Errorf("offered: %q", offered)
		}
		return nil
	})
	p.write("apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: made\n  namespace: shop\nspec:\n  engine: sqlite\n  size: 1\n")
	p.click("Review")
	p.sees("Cannot review", "Unsupported value")
	p.write("apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: made\n  namespace: shop\nspec:\n  engine: mysql\n  size: 1\n")
	p.click("Review")
	p.sees("dry run")
	if out, err := s.TryKubectl("", "get", "database", "made", "-n", "shop"); err == nil {
		t.Errorf("a review has created the object: %s", out)
	}
	p.click("Create")
	p.sees("made", "Metadata")
	if engine := s.Kubectl("", "get", "database", "made", "-n", "shop", "-o", "jsonpath={.spec.engine}"); engine != "mysql" {
		t.Errorf("the engine is %q", engine)
	}
	if managers := s.Kubectl("", "get", "database", "made", "-n", "shop", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}"); managers != "kube-hyper-mini-console" {
		t.Errorf("the field managers are %q", managers)
	}

	// A field that kubectl applied is its own, and is taken over.
	p.visit("#/edit/cloud.example.org/v1/databases/shop/users")
	p.write("apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: users\n  namespace: shop\n  labels: {app: users}\nspec:\n  engine: mysql\n  size: 50\n")
	p.click("Review")
	p.sees("A person has set fields that you change", "spec.size is owned by kubectl")
	p.click("Take the fields over")
	p.sees("dry run", "Apply takes over spec.size.")
	p.click("Apply")
	p.sees("Metadata")
	if size := s.Kubectl("", "get", "database", "users", "-n", "shop", "-o", "jsonpath={.spec.size}"); size != "50" {
		t.Errorf("the size is %s", size)
	}

	// The dialog names what goes too.
	p.visit("#/object/cloud.example.org/v1/databases/shop/orders")
	p.click("Delete")
	p.sees("Delete Database orders?", "Volume orders-data")
	p.click("Foreground: the dependents that block it first, then the object")
	p.run("delete", clickIn("dialog[open] .danger"))
	harness.Eventually(t, "the volume goes with its owner", func() error {
		_, err := s.Dynamic().Resource(schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1", Resource: "volumes"}).Namespace("shop").Get(t.Context(), "orders-data", metav1.GetOptions{})
		return gone(err)
	})
	p.lacks("orders")
}

// TestRightsInOneNamespace: a user with rights in one namespace begins with that of the
// context, can type another one, and sees no buttons that the user may not use.
func TestRightsInOneNamespace(t *testing.T) {
	t.Parallel()
	s := filled(t)
	s.Kubectl("", "create", "configmap", "kept", "-n", "shop")
	path := filepath.Join(t.TempDir(), "reader.kubeconfig")
	harness.Runs(t, 0, "kubeconfig", "create", "reader", "--data-dir", s.Dir, "--group", "readers", "-o", path)
	s.Kubectl("", "create", "rolebinding", "readers", "-n", "shop", "--clusterrole=view", "--group=readers")
	harness.Runs(t, 0, "kubectl", "--kubeconfig", path, "config", "set-context", "--current", "--namespace", "shop")
	p := open(t, launch(t, "--kubeconfig", path), "")
	p.sees("Overview", "Kubernetes")
	p.lacks("Cannot")
	p.visit("#/objects/core/v1/configmaps")
	p.sees("kept", "2 objects")
	if buttons := p.text(); strings.Contains(buttons, "Create") {
		t.Errorf("the user may create objects in\n%s", buttons)
	}
	choose := func(namespace string) {
		p.run("choose "+namespace, chromedp.Focus(labelled("Namespace")), chromedp.KeyEvent(namespace), chromedp.KeyEvent("\r"))
	}
	choose("elsewhere")
	p.sees("Cannot list configmaps in elsewhere", "choose another namespace")
	choose("shop")
	p.sees("kept")
	p.lacks("Cannot")
	p.visit("#/object/core/v1/configmaps/shop/kept")
	p.sees("Metadata")
	if buttons := p.text(); strings.Contains(buttons, "Delete") || strings.Contains(buttons, "Edit") {
		t.Errorf("the user may change the object in\n%s", buttons)
	}
}

// TestChangedMeanwhile: a change by another client while one edits is a conflict,
// which keeps the text; a change of the status is none.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/edit/cloud.example.org/v1/databases/shop/users")
	written := "apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: users\n  namespace: shop\n  labels: {app: users}\nspec:\n  engine: mysql\n  size: 5\n  note: mine\n"
	p.write(written)
	s.Kubectl("", "patch", "database", "users", "-n", "shop", "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"busy"}}`)
	p.click("Review")
	p.sees("dry run")
	s.Kubectl("", "label", "database", "users", "-n", "shop", "team=a")
	p.click("Apply")
	p.sees("The object has changed since you began")
	p.click("Keep the text, use the current version")
	p.click("Review")
	p.sees("dry run")
	p.click("Apply")
	p.sees("Metadata", "team")
	if note := s.Kubectl("", "get", "database", "users", "-n", "shop", "-o", "jsonpath={.spec.note}"); note != "mine" {
		t.Errorf("the note is %q", note)
	}
}

// TestHostileNames: names, columns, managers, conditions, events and bindings
// that contain markup, and characters of addresses and selectors, are text.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	const markup = `<img src=x onerror="window.hacked=true">`
	name := markup + ` a,b=c?d#e&f\`
	create := func(object map[string]any) {
		t.Helper()
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		s.Kubectl(string(text), "create", "-f", "-")
	}
	create(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "traps.evil.example.org"},
		"spec": map[string]any{
			"group": "evil.example.org", "scope": "Cluster", "names": map[string]any{"kind": "Trap", "plural": "traps"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"additionalPrinterColumns": []any{map[string]any{"name": markup, "type": "string", "jsonPath": ".spec.text", "description": markup}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "description": markup, "properties": map[string]any{
					"spec":   map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string", "description": markup}, markup: map[string]any{"type": "string", "enum": []any{markup}}}},
					"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}},
			}},
		},
	})
	create(map[string]any{"apiVersion": "evil.example.org/v1", "kind": "Trap", "metadata": map[string]any{"name": "trap"}, "spec": map[string]any{"text": markup, markup: markup}})
	s.Kubectl("", "patch", "trap", "trap", "--subresource=status", "--type=merge", "-p", `{"status":{"conditions":[{"type":"<b>Ready</b>","status":"False","reason":"<i>no</i>","message":"<script>window.hacked=true</script>"}]}}`)
	s.Kubectl("", "annotate", "trap", "trap", "note=<script>window.hacked=true</script>", "--field-manager="+markup)
	create(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name},
		"rules": []any{map[string]any{"apiGroups": []any{"evil.example.org"}, "resources": []any{"traps"}, "verbs": []any{"get"}}}})
	create(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": markup}}})
	create(map[string]any{"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "trap", "namespace": "default"}, "type": "Warning", "reason": "<b>Trap</b>", "message": markup,
		"involvedObject": map[string]any{"apiVersion": "evil.example.org/v1", "kind": "Trap", "name": markup, "namespace": "default"}})

	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.sees("<b>Trap</b>", "onerror=")
	p.visit("#/objects/evil.example.org/v1/traps")
	p.sees("trap", "<img src=x")
	p.click(markup) // the column sorts
	p.visit("#/object/evil.example.org/v1/traps/-/trap")
	p.sees("<b>Ready</b>", "<i>no</i>", "<script>")
	p.click("YAML")
	p.sees("onerror=")
	p.click("Managers")
	p.sees("onerror=")
	p.visit("#/schema/evil.example.org/v1/traps")
	p.sees("onerror=", "one of <img")
	p.visit("#/new/evil.example.org/v1/traps")
	p.sees("Create Trap")
	p.visit("#/access?verb=get&type=evil.example.org/v1/traps")
	p.sees("a,b=c?d#e&f\\")
	p.click(name)
	p.sees("ClusterRole", "Metadata", name)
	s.Kubectl("", "patch", "clusterrole", name, "--type=merge", "-p", `{"metadata":{"labels":{"seen":"live"}}}`)
	p.sees("live")
	p.run("reload", reload())
	p.sees("Metadata", name)
	if evaluate[bool](p, "!!window.hacked") {
		t.Error("markup was run")
	}
	if images := evaluate[int](p, `document.querySelectorAll("main img, main script").length`); images != 0 {
		t.Errorf("%d elements come from an object", images)
	}
}

// TestBadInput: what cannot work is refused before anything listens.
func TestBadInput(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for name, test := range map[string]struct {
		code int
		args []string
		want string
	}{
		"no server":       {3, []string{"--data-dir", empty}, "start the server first"},
		"no kubeconfig":   {2, []string{"--kubeconfig", filepath.Join(empty, "none")}, "none"},
		"no such context": {2, []string{"--kubeconfig", filepath.Join(empty, "none"), "--context", "elsewhere"}, "none"},
		"a wrong port":    {2, []string{"--data-dir", empty, "--port", "99999"}, "--port 99999 is not a port"},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Contains(t, harness.Runs(t, test.code, append([]string{"console", "--no-browser"}, test.args...)...), test.want)
		})
	}
}

// TestUnreachableServer: the page reports that the server does not answer, and continues
// when it does. It does not take the console's end for that.
func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	port := fmt.Sprint(harness.FreePort(t))
	s := harness.Start(t, "--port", port)
	c := launch(t, "--data-dir", s.Dir)
	p := open(t, c, "#/objects/core/v1/namespaces")
	p.sees("kube-system")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with %d", code)
	}
	p.sees("The API server does not answer")
	s = harness.StartIn(t, s.Dir, "--port", port)
	p.lacks("The API server does not answer")
	s.Kubectl("", "create", "namespace", "after")
	p.sees("after")
	c.stop(t)
	p.sees("The console does not answer", "open the address that it prints")
}
