package console

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

var databases = schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1", Resource: "databases"}

// filled is a server with the CRDs and objects of testdata, a volume that a
// database owns, and conditions.
func filled(t *testing.T) *harness.Server {
	t.Helper()
	s := harness.Start(t)
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
	return s
}

// TestPages: each page shows what the server holds, and what objects contain is
// text.
func TestPages(t *testing.T) {
	t.Parallel()
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.sees("Overview", "Kubernetes", "kube-hyper-mini", "Database", "ready", "From CRDs")
	p.visit("#/types")
	p.fill("Filter types", "cloud.example")
	p.sees("2 of", "Database", "Volume", "namespaced")
	p.visit("#/objects/cloud.example.org/v1/databases")
	p.sees("orders", "users", "postgres", "2 objects", "Engine")
	p.fill("Label selector", "app=users")
	p.lacks("orders")
	p.visit("#/object/cloud.example.org/v1/databases/shop/orders")
	p.sees("orders", "Conditions", "not ready: Creating", "the <b>database</b> is being created", "onerror=")
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
	if title := evaluate[string](p, "document.title"); title != "kube-hyper-mini" {
		t.Errorf("markup of an object was run: the title is %q", title)
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
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/object/core/v1/secrets/shop/password?tab=yaml")
	p.sees("word: ••••••")
	p.lacks("Y29ycmVjdCBob3JzZQ==")
	p.click("show secret values")
	p.sees("Y29ycmVjdCBob3JzZQ==")
}

// TestCreateEditDelete: by server-side apply with a review, conflicts and what
// the server refuses.
func TestCreateEditDelete(t *testing.T) {
	t.Parallel()
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/new/cloud.example.org/v1/databases?ns=shop")
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

	// A field that kubectl applied is its own: a conflict, taken over.
	p.visit("#/edit/cloud.example.org/v1/databases/shop/users")
	p.write("apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: users\n  namespace: shop\nspec:\n  engine: mysql\n  size: 50\n")
	p.click("Review")
	p.sees("Other managers own fields", ".spec.size", "kubectl")
	p.click("Take the fields over")
	p.sees("dry run")
	p.click("Apply")
	p.sees("Other managers own fields")
	p.click("Take the fields over")
	p.sees("Metadata")
	if size := s.Kubectl("", "get", "database", "users", "-n", "shop", "-o", "jsonpath={.spec.size}"); size != "50" {
		t.Errorf("the size is %s", size)
	}

	// The dialog names what goes too.
	p.visit("#/object/cloud.example.org/v1/databases/shop/orders")
	p.click("Delete")
	p.sees("Delete Database orders?", "Volume orders-data")
	p.run("delete", clickIn("dialog[open] .danger"))
	harness.Eventually(t, "the volume goes with its owner", func() error {
		_, err := s.Dynamic().Resource(schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1", Resource: "volumes"}).Namespace("shop").Get(t.Context(), "orders-data", metav1.GetOptions{})
		return gone(err)
	})
	p.lacks("orders")
}

// TestRefusedDeletion: the answer of the server is shown.
func TestRefusedDeletion(t *testing.T) {
	t.Parallel()
	s := filled(t)
	s.Kubectl("", "create", "configmap", "kept", "-n", "shop")
	path := filepath.Join(t.TempDir(), "reader.kubeconfig")
	harness.Runs(t, 0, "kubeconfig", "create", "reader", "--data-dir", s.Dir, "--group", "readers", "-o", path)
	s.Kubectl("", "create", "clusterrolebinding", "readers", "--clusterrole=view", "--group=readers")
	p := open(t, launch(t, "--kubeconfig", path), "#/object/core/v1/configmaps/shop/kept")
	p.click("Delete")
	p.sees("Delete ConfigMap kept?")
	p.run("delete", clickIn("dialog[open] .danger"))
	p.sees("could not be deleted", "forbidden")
}

// TestSessions: one browser for each token, and none without.
func TestSessions(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	c := launch(t, "--data-dir", s.Dir)
	request := func(path string, change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.host()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(r)
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode, response.Header.Get("Set-Cookie")
	}
	token := c.address[len(c.host()):]
	code, cookie := request(token, nil)
	if code != http.StatusSeeOther || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") {
		t.Errorf("the printed address: %d, cookie %q", code, cookie)
	}
	if code, cookie := request(token, nil); code != http.StatusUnauthorized || cookie != "" {
		t.Errorf("a used token: %d, cookie %q", code, cookie)
	}
	log := c.log(t)
	if code, _ := request(strings.TrimSpace(log[strings.LastIndex(log, "/?token="):]), nil); code != http.StatusSeeOther {
		t.Errorf("the new address on the terminal: %d", code)
	}
	value := strings.Split(cookie, ";")[0]
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"no session":       {nil, http.StatusUnauthorized},
		"a session":        {func(r *http.Request) { r.Header.Set("Cookie", value) }, http.StatusOK},
		"another name":     {func(r *http.Request) { r.Header.Set("Cookie", value); r.Host = "evil.example:80" }, http.StatusMisdirectedRequest},
		"another origin":   {func(r *http.Request) { r.Header.Set("Cookie", value); r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"another site":     {func(r *http.Request) { r.Header.Set("Cookie", value); r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"an impersonation": {func(r *http.Request) { r.Header.Set("Cookie", value); r.Header.Set("Impersonate-User", "nobody") }, http.StatusOK},
	} {
		if code, _ := request("/k8s/api/v1/namespaces", test.change); code != test.want {
			t.Errorf("%s: %d, want %d", name, code, test.want)
		}
	}
}

// TestEditor: the schema completes fields and marks errors while one writes.
func TestEditor(t *testing.T) {
	t.Parallel()
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/new/cloud.example.org/v1/databases?ns=shop")
	p.sees("engine: postgres", "size: 1") // what the schema requires
	p.write("apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: made\n  namespace: shop\nspec:\n  engine: sqlite\n  sizes: 1\n  ")
	harness.Eventually(t, "errors are marked", func() error {
		if marks := evaluate[int](p, `document.querySelectorAll(".cm-lint-marker-error").length`); marks < 3 {
			return fmt.Errorf("%d lines are marked", marks)
		}
		return nil
	})
	p.run("type", chromedp.KeyEvent("netw"))
	harness.Eventually(t, "the field is offered", func() error {
		if offered := evaluate[string](p, `document.querySelector(".cm-tooltip-autocomplete")?.innerText ?? ""`); !strings.Contains(offered, "network") {
			return fmt.Errorf("offered: %q", offered)
		}
		return nil
	})
}

// TestKeyboard: a type is found and an object opened without a mouse.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.sees("Served")
	harness.Eventually(t, "the search has the focus", func() error {
		p.run("press /", chromedp.KeyEvent("/"))
		if label := evaluate[string](p, `document.activeElement.ariaLabel ?? ""`); label != "Go to a type" {
			return fmt.Errorf("%q has it", label)
		}
		return nil
	})
	p.run("type", chromedp.KeyEvent("datab"))
	p.run("wait for the menu", chromedp.WaitVisible(chromedp.CSS(".menu a.selected")))
	p.run("press Enter", chromedp.KeyEvent(kb.Enter))
	p.sees("orders", "users")
	p.run("go to the first object, the next, and open it", chromedp.Focus(chromedp.CSS(".row-slot a")), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	p.sees("Metadata", "users")
}

// TestExpiredSession: the page of an earlier console shows the remedy.
func TestExpiredSession(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	port := fmt.Sprint(harness.FreePort(t))
	c := launch(t, "--data-dir", s.Dir, "--port", port)
	p := open(t, c, "#/objects/core/v1/namespaces")
	p.sees("kube-system")
	c.stop(t)
	launch(t, "--data-dir", s.Dir, "--port", port)
	p.sees("The session of this page has ended")
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

// TestUnreachableServer: the page reports that the server does not answer, and continues when it does.
func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--port", "0")
	address := strings.TrimPrefix(s.RESTConfig().Host, "https://")
	port := address[strings.LastIndex(address, ":")+1:]
	p := open(t, launch(t, "--data-dir", s.Dir), "#/objects/core/v1/namespaces")
	p.sees("kube-system")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with %d", code)
	}
	p.sees("The API server does not answer")
	s = harness.StartIn(t, s.Dir, "--port", port)
	p.lacks("The API server does not answer")
	s.Kubectl("", "create", "namespace", "after")
	p.sees("after")
}
