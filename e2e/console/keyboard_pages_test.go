package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKeyboardOfObject: the tabs of an object, its events, managed fields, search and folding,
// also of an object that changes, the values of a Secret, relations, editing with completion and errors, the review, a
// conflict, the way out of the editor, creation, and deletion without the dependents.
func TestKeyboardOfObject(t *testing.T) {
	t.Parallel()
	s := filled(t)
	const users = "#/object/cloud.example.org/v1/databases/shop/users"
	p := open(t, launch(t, "--data-dir", s.Dir), users)
	p.size(1440, 900, "dark")
	p.sees("Metadata", "users")
	p.tab("Summary")
	p.press(kb.ArrowRight)
	p.focused("YAML")
	p.sees("engine: mysql")
	p.tab("managed fields")
	p.press(" ")
	p.sees("managedFields")
	p.press(" ")
	p.lacks("managedFields")
	p.tab("Search")
	p.press(kb.Enter)
	p.focused("Find")
	p.press("mysql", kb.Enter)
	p.await("the text is found", func() error {
		if selected := evaluate[int](p, `document.querySelectorAll(".cm-searchMatch-selected").length`); selected != 1 {
			return fmt.Errorf("%d matches are selected", selected)
		}
		return nil
	})
	p.press(kb.Escape)
	p.focused("YAML of users")
	p.back("Fold all")
	p.press(kb.Enter)
	p.lacks("engine: mysql")
	s.Kubectl("", "patch", "database", "users", "-n", "shop", "--subresource=status", "--type=merge", "-p", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	p.sees("not ready")
	p.lacks("engine: mysql") // a change leaves folded what it does not touch
	p.tab("Unfold all")
	p.press(kb.Enter)
	p.sees("engine: mysql")
	p.tab("YAML of users")
	p.tab("kube-hyper-mini") // the view does not hold Tab; the page begins again
	p.tab("YAML")
	p.press(kb.End)
	p.focused("Managers")
	p.tab("kubectl-client-side-apply")
	p.press(kb.Enter)
	p.sees("spec.engine")
	uid := s.Kubectl("", "get", "database", "users", "-n", "shop", "-o", "jsonpath={.metadata.uid}")
	s.Kubectl("apiVersion: v1\nkind: Event\nmetadata: {name: users, namespace: shop}\ntype: Normal\nreason: Resized\nmessage: it has 10 GB now\n"+
		"involvedObject: {apiVersion: cloud.example.org/v1, kind: Database, namespace: shop, name: users, uid: "+uid+"}\n", "create", "-f", "-")
	p.visit(users + "?tab=events")
	p.sees("Resized", "it has 10 GB now")
	p.visit("#/object/core/v1/secrets/shop/password?tab=yaml")
	p.sees("word: ••••••")
	p.tab("show secret values")
	p.press(" ")
	p.sees("word: Y29ycmVjdCBob3JzZQ==")
	p.visit("#/object/cloud.example.org/v1/databases/shop/orders?tab=tree")
	p.sees("orders-data")
	p.tab("Volume shop/orders-data")
	p.press(kb.Enter)
	p.sees("Volume", "orders-data", "Relations")

	// Edit: the editor has the focus.
	p.visit(users)
	p.sees("Metadata", "Edit")
	p.tab("Edit")
	p.press(kb.Enter)
	p.focused("YAML")
	p.sees("Tab indents")
	p.chord(chromedp.ModifierCtrl, kb.End)
	p.press(kb.Tab) // indents
	p.focused("YAML")
	p.press("no")
	p.await("the field is offered", func() error { // for a moment the editor ignores keys, which are for the text
		if offered := evaluate[bool](p, `(() => {
			const offer = document.querySelector(".cm-tooltip-autocomplete");
			if (!offer?.innerText.includes("note")) return false;
			return performance.now() - (offer.since ??= performance.now()) > 150;
		})()`); !offered {
			return fmt.Errorf("the text is %q", p.text())
		}
		return nil
	})
	p.run("take the offer", chromedp.KeyEvent(kb.Enter, withoutText))
	p.press("by hand")
	p.sees("note: by hand")
	p.press(kb.Enter, "wrong: 1")
	p.await("the error is marked", func() error {
		if marks := evaluate[int](p, `document.querySelectorAll(".cm-lint-marker-error").length`); marks != 1 {
			return fmt.Errorf("%d lines are marked", marks)
		}
		return nil
	})
	for range len("wrong: 1") {
		p.press(kb.Backspace)
	}

	// Escape and Tab leave the editor; Ctrl+Enter reviews from within.
	p.await("the editor is left", func() error { // Tab must follow within two seconds; an offer takes one Escape
		p.press(kb.Escape)
		if p.chord(chromedp.ModifierShift, kb.Tab); p.focus() == "YAML" {
			return fmt.Errorf("it has the focus")
		}
		return nil
	})
	p.focused("Review")
	p.tab("YAML")
	p.chord(chromedp.ModifierCtrl, kb.Enter)
	p.sees("dry run")
	p.await("the review has the focus", func() error {
		if got := p.focus(); !strings.HasPrefix(got, "What the server makes of it") {
			return fmt.Errorf("%.80q has it", got)
		}
		return nil
	})
	p.back("Back to the editor")
	p.press(kb.Enter)
	p.focused("YAML")
	p.chord(chromedp.ModifierCtrl, kb.Enter)
	p.sees("dry run")
	p.tab("changes")
	p.back("Apply")
	p.press(kb.Enter)
	p.sees("Metadata", "users")
	if note := s.Kubectl("", "get", "database", "users", "-n", "shop", "-o", "jsonpath={.spec.note}"); note != "by hand" {
		t.Errorf("the note is %q", note)
	}

	// A field of another manager is taken over.
	s.Kubectl("", "label", "database", "users", "-n", "shop", "team=a", "--field-manager=team-a")
	p.tab("Edit")
	p.press(kb.Enter)
	p.focused("YAML")
	p.sees("team: a")
	p.chord(chromedp.ModifierCtrl, "a")
	p.run("write", paste("apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: users\n  namespace: shop\n  labels: {team: b}\nspec:\n  engine: mysql\n  size: 5\n"))
	p.chord(chromedp.ModifierCtrl, kb.Enter)
	p.sees("Other managers own fields", "team-a")
	p.tab("Take the fields over")
	p.press(kb.Enter)
	p.sees("dry run")
	p.back("Apply")
	p.press(kb.Enter)
	p.sees("Metadata", "team")
	if team := s.Kubectl("", "get", "database", "users", "-n", "shop", "-o", "jsonpath={.metadata.labels.team}"); team != "b" {
		t.Errorf("the team is %q", team)
	}

	// Create, from the list of objects.
	p.visit("#/objects/core/v1/configmaps?ns=shop")
	p.sees("kube-root-ca.crt")
	p.tab("Create")
	p.press(kb.Enter)
	p.focused("YAML")
	p.sees("kind: ConfigMap")
	p.chord(chromedp.ModifierCtrl, "a")
	p.press("apiVersion: v1", kb.Enter, "kind: ConfigMap", kb.Enter, "metadata: {name: typed, namespace: shop}")
	p.chord(chromedp.ModifierCtrl, kb.Enter)
	p.sees("dry run")
	p.back("Create")
	p.press(kb.Enter)
	p.sees("typed", "Metadata")
	s.Kubectl("", "get", "configmap", "typed", "-n", "shop")

	// Delete it.
	p.tab("Delete")
	p.press(kb.Enter)
	p.sees("Delete ConfigMap typed?", "Nothing depends on it.")
	p.tab("Delete")
	p.press(kb.Enter)
	p.sees("kube-root-ca.crt")
	p.lacks("typed")

	// Delete an object and keep its dependents.
	p.visit("#/object/cloud.example.org/v1/databases/shop/orders")
	p.sees("Metadata", "orders")
	p.tab("Delete")
	p.press(kb.Enter)
	p.sees("These go too:", "Volume orders-data")
	p.press(kb.ArrowDown, kb.ArrowDown)
	p.focused("Orphan: the object only; dependents stay without an owner")
	p.sees("These stay, without this owner:", "Volume orders-data")
	p.tab("Delete")
	p.press(kb.Enter)
	p.await("the database is deleted", func() error {
		_, err := s.Dynamic().Resource(databases).Namespace("shop").Get(t.Context(), "orders", metav1.GetOptions{})
		return gone(err)
	})
	if owners := s.Kubectl("", "get", "volume", "orders-data", "-n", "shop", "-o", "jsonpath={.metadata.ownerReferences}"); owners != "" {
		t.Errorf("the volume has the owners %s", owners)
	}
}

// TestKeyboardOfSchema: fields are opened, linked and searched, and the questions of
// the access page asked, without a mouse.
func TestKeyboardOfSchema(t *testing.T) {
	t.Parallel()
	s := read(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/schema/cloud.example.org/v1/databases")
	p.size(360, 740, "dark")
	p.sees("Engine is the program that stores.")
	p.tab("▸ network")
	p.press(kb.Enter)
	p.sees("Subnets that may connect.")
	p.tab("Link to spec.network.subnets")
	p.press(kb.Enter)
	p.address("path=spec.network.subnets")
	p.back("Search the schema")
	p.press("subnets that")
	p.lacks("Engine is the program that stores.")
	p.tab("spec.network.subnets")
	p.press(kb.Enter)
	p.sees("Engine is the program that stores.")
	p.back("Search the schema")
	p.press("subnets that")
	p.lacks("Engine is the program that stores.")
	// In a busy browser the pause after typing may end between a link on the page and its event.
	evaluate[any](p, `let paused
		const { setTimeout } = window
		window.setTimeout = (callback) => { paused = callback }
		document.activeElement.value += "x"
		document.activeElement.dispatchEvent(new Event("input", { bubbles: true }))
		window.setTimeout = setTimeout
		location.hash = location.hash.split("?")[0] + "?path=spec.network.subnets"
		paused()`)
	p.sees("Engine is the program that stores.")
	p.back("Compare with")
	p.press("v")
	p.sees("spec.gigabytes")
	p.back("Version")
	p.press("v") // the next one
	p.sees("cloud.example.org/v1beta1", "gigabytes")

	p.visit("#/access")
	p.sees("Who may", "system:masters")
	p.tab("Verb")
	p.press("d")
	p.tab("Type")
	p.press("cloud.example.org/v1/databases")
	p.sees("generic-garbage-collector")
	p.address("verb=delete")
}
