package console

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestHome: the overview begins with the user's types and objects: what is not ready, with
// the reason, and what has changed last, by whom. It follows them, in the chosen namespace.
func TestHome(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.sees("No types are installed.", "Server", "Kubernetes")
	fill(t, s)
	p.shows(".content li", "Database", "2")
	p.shows(".halves li", "Creating", "Database", "orders", "in shop", "the <b>database</b> is being created")
	p.shows(".halves li", "Volume", "orders-data", "created by kubectl-create")
	p.lacks("kube-root-ca.crt") // the server makes it
	s.Kubectl("", "patch", "database", "orders", "-n", "shop", "--subresource=status", "--type=json", "--field-manager=cloud", "-p", `[{"op":"replace","path":"/status/conditions/0/reason","value":"CreateFailed"}]`)
	p.shows(".halves li", "CreateFailed", "orders")
	p.shows(".halves .bad", "CreateFailed")
	p.shows(".halves li", "orders", "status by cloud")
	p.visit("#/object/cloud.example.org/v1/databases/shop/orders")
	p.shows(".conditions .bad", "Ready")
	p.visit("#/")
	p.run("choose a namespace", chromedp.Focus(labelled("Namespace")), chromedp.KeyEvent("d"))
	p.sees("Objects in default")
	p.lacks("orders")
}

// TestSearch: it finds types, and objects by a part of their name, in the chosen namespace.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := read(t)
	path := filepath.Join(t.TempDir(), "viewer.kubeconfig")
	harness.Runs(t, 0, "kubeconfig", "create", "viewer", "--data-dir", s.Dir, "-o", path)
	s.Kubectl("", "create", "rolebinding", "viewer", "-n", "shop", "--clusterrole=view", "--user=viewer")
	for name, c := range map[string]*console{"the administrator": launch(t, "--data-dir", s.Dir), "a user with rights in one namespace": launch(t, "--kubeconfig", path)} {
		t.Run(name, func(t *testing.T) {
			p := open(t, c, "#/types")
			if c.cmd.Args[len(c.cmd.Args)-1] == path {
				// The field replaces the list once the console knows that the user may not list namespaces.
				p.run("choose a namespace", chromedp.Focus(chromedp.CSS("input.namespace")), chromedp.KeyEvent("shop"), chromedp.KeyEvent("\r"))
			}
			p.shows(".type-row:not(.head)", "Database", "cloud.example.org", "2") // with objects first, counted one by one
			p.press("/", "orders")
			p.shows("#found li", "orders", "Database in shop")
			p.shows("#found li", "orders-data", "Volume in shop")
			p.press(kb.Escape, "/", "volume log")
			p.shows("#found li", "orders-log", "Volume in shop")
			p.press(kb.Enter)
			p.address("/volumes/shop/orders-log")
			p.sees("Metadata")
			p.press("/", "volume")
			p.shows("#found li", "Volume", "cloud.example.org/v1")
		})
	}
}
