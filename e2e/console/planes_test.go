package console

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const planes = "#/objects/planes.kube-hyper-mini.io/v1alpha1/controlplanes"

// withPlanes is a server with the control planes acme and beta, which sleep, and broken,
// which cannot start. The server and acme have config maps that say so.
func withPlanes(t *testing.T) *harness.Server {
	t.Helper()
	s := harness.Start(t, "--config", filepath.Join(harness.Root(t), "config", "examples", "planes", "config.yaml"))
	for name, spec := range map[string]string{
		"acme": "{sleepAfter: 1s}", "beta": "{sleepAfter: 1s}", "broken": "{crds: {configMaps: [{namespace: default, name: none}]}}",
	} {
		s.Kubectl(fmt.Sprintf("{apiVersion: planes.kube-hyper-mini.io/v1alpha1, kind: ControlPlane, metadata: {name: %s}, spec: %s}", name, spec), "create", "-f", "-")
		s.Await("jsonpath={.status.phase}=Asleep", "controlplane", name)
	}
	s.Kubectl("", "create", "configmap", "only-on-the-server")
	s.Kubectl("", s.InPlane("acme", "create", "configmap", "only-in-acme")...)
	if out, err := s.TryKubectl("", s.InPlane("broken", "get", "namespaces")...); err == nil {
		t.Fatalf("the control plane broken has started:\n%s", out)
	}
	s.Await("jsonpath={.status.phase}=Failed", "controlplane", "broken")
	s.Await("jsonpath={.status.objects}", "controlplane", "acme") // counted when it went to sleep
	s.Await("jsonpath={.status.phase}=Asleep", "controlplane", "acme")
	return s
}

// at waits until the page is at the path. It may be loaded meanwhile.
func (p *page) at(path string) {
	p.t.Helper()
	p.await("the page is at "+path, func() error {
		got, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.readyState === "complete" && document.querySelector("header") ? location.pathname : "(loading)"`))
		if err == nil && got != path {
			err = fmt.Errorf("it is at %s", got)
		}
		return err
	})
}

// TestPlanes: the overview shows control planes, and why one has failed, and wakes none. A
// person goes to the console of one, and back, also without a mouse; a reload stays.
func TestPlanes(t *testing.T) {
	t.Parallel()
	s := withPlanes(t)
	used := func() string {
		return s.Kubectl("", "get", "controlplane", "acme", "-o", "jsonpath={.status.phase} {.status.lastUsed}")
	}
	before := used()
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.shows(".content li", "ControlPlane", "3")
	p.shows(".halves li", "Failed", "broken", "none")
	p.click("Control planes")
	p.shows(".object-row", "acme", "open", "Asleep", "MiB", "ago")
	p.shows(".object-row", "broken", "Failed")
	p.shows(".failed li", "broken", "none")
	p.run("open the picker", chromedp.Focus(labelled("Control plane: the server")), chromedp.KeyEvent(kb.Enter))
	p.shows(".picker li", "beta")
	p.press(kb.Escape)
	p.focused("Control plane: the server")
	if asked := evaluate[[]string](p, `performance.getEntriesByType("resource").map((e) => e.name).filter((name) => name.includes("/k8s/clusters/"))`); len(asked) > 0 {
		t.Errorf("the overview has asked control planes: %q", asked)
	}

	p.tab("acme")
	p.tab("Open the console of acme")
	if after := used(); after != before {
		t.Errorf("acme was %s, and is %s when the overview was looked at", before, after)
	}
	p.press(kb.ArrowDown)
	p.focused("Open the console of beta")
	p.press(kb.ArrowUp, kb.Enter)
	p.at("/clusters/acme")
	p.visit("#/objects/core/v1/configmaps?ns=default")
	p.sees("only-in-acme")
	p.lacks("only-on-the-server")
	p.run("reload", reload())
	p.at("/clusters/acme")
	p.sees("only-in-acme", "2 objects")

	p.tab("Control plane acme")
	p.press(kb.Enter)
	p.focused("Find a control plane")
	p.press("bet")
	p.shows(".picker li", "beta")
	p.press(kb.Enter)
	p.at("/clusters/beta")
	p.visit("#/objects/core/v1/configmaps?ns=default")
	p.sees("1 object")
	p.lacks("only-")
	p.tab("Control plane beta")
	p.press(kb.Enter)
	p.focused("Find a control plane")
	p.press(kb.ArrowDown)
	p.focused("Back to the server")
	p.press(kb.Enter)
	p.at("/")
	p.visit("#/objects/core/v1/configmaps?ns=default")
	p.sees("only-on-the-server")

	for path, want := range map[string]string{"/clusters/broken": "none", "/clusters/nowhere": "there is no control plane nowhere"} {
		p.run("go to "+path, chromedp.Navigate(p.host+path))
		p.sees("Cannot use this control plane", want)
		p.click("Back to the server")
		p.at("/")
	}
}

// TestPlaneIsMade: a control plane is created by the short form and deleted, without a mouse.
func TestPlaneIsMade(t *testing.T) {
	t.Parallel()
	s := withPlanes(t)
	p := open(t, launch(t, "--data-dir", s.Dir), planes)
	p.sees("beta", "Create")
	p.tab("Create")
	p.press(kb.Enter)
	p.focused("Name")
	p.press("Not a name", kb.Enter)
	p.sees("Cannot create it", "it is part of the URL")
	p.chord(chromedp.ModifierCtrl, "a")
	p.press("made", kb.Tab)
	p.focused("Sleeps after")
	p.press("10m", kb.Tab, "7d", kb.Enter)
	p.shows(".object-row", "made", "Asleep")
	if spec := s.Kubectl("", "get", "controlplane", "made", "-o", "jsonpath={.spec.sleepAfter} {.spec.lifetime}"); spec != "10m 7d" {
		t.Errorf("the spec has %s", spec)
	}
	p.tab("Select acme")
	p.press(kb.End)
	p.focused("Select made")
	p.press(" ", kb.Delete)
	p.sees("Delete ControlPlane made?", "All that it contains is deleted.")
	p.tab("Delete")
	p.press(kb.Enter)
	p.lacks("made")
	p.sees("3 objects")
}

// TestRightsOfPlanes: who may not list control planes sees neither them nor an error; who
// may administer one gets to its console, and not to that of another.
func TestRightsOfPlanes(t *testing.T) {
	t.Parallel()
	s := withPlanes(t)
	path := filepath.Join(t.TempDir(), "jane.kubeconfig")
	harness.Runs(t, 0, "kubeconfig", "create", "jane", "--data-dir", s.Dir, "--role", "view", "--namespace", "default", "-o", path)
	p := open(t, launch(t, "--kubeconfig", path), "#/objects/core/v1/configmaps?ns=default")
	p.sees("only-on-the-server")
	if shown := p.text(); strings.Contains(shown, "Control planes") || strings.Contains(shown, "Cannot") || evaluate[bool](p, `!!document.querySelector(".picker")`) {
		t.Errorf("who may not list control planes sees:\n%s", shown)
	}
	s.Kubectl("", "create", "clusterrole", "of-acme", "--verb=update", "--resource=controlplanes.planes.kube-hyper-mini.io/admin", "--resource-name=acme")
	s.Kubectl("", "create", "clusterrolebinding", "of-acme", "--clusterrole=of-acme", "--user=jane")
	p.run("go to acme", chromedp.Navigate(p.host+"/clusters/acme#/objects/core/v1/configmaps?ns=default"))
	p.sees("only-in-acme")
	p.run("open the picker", chromedp.Focus(labelled("Control plane acme")), chromedp.KeyEvent(kb.Enter))
	p.sees("The others are not known", "Back to the server")
	p.run("go to beta", chromedp.Navigate(p.host+"/clusters/beta"))
	p.sees("The control plane beta does not accept you", "controlplanes/admin")
}
