package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxTabs is how often Tab may be needed to reach an element of a page.
const maxTabs = 80

// press presses keys, one after the other.
func (p *page) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.run(fmt.Sprintf("press %q", key), chromedp.KeyEvent(key))
	}
}

// chord presses a key with a modifier.
func (p *page) chord(modifier chromedp.Modifier, key string) {
	p.t.Helper()
	p.run(fmt.Sprintf("press %q with a modifier", key), chromedp.KeyEvent(key, chromedp.KeyModifiers(modifier)))
}

// withoutText leaves out the character of a key, which the browser's protocol sends by
// itself: a page that handles the key itself would get it all the same.
func withoutText(event *input.DispatchKeyEventParams) {
	if event.Type == kb.KeyChar {
		event.Modifiers |= int64(chromedp.ModifierAlt)
	}
}

// focus is the name of the element that has the focus, as a screen reader says it.
func (p *page) focus() string {
	p.t.Helper()
	return evaluate[string](p, `(() => {
		const e = document.activeElement;
		if (!e || e === document.body) return "";
		return (e.getAttribute("aria-label") || (e.labels?.length ? e.labels[0].innerText : "") || e.innerText || e.textContent || e.tagName).trim();
	})()`)
}

// focused waits until the element of the name has the focus.
func (p *page) focused(name string) {
	p.t.Helper()
	p.await(name+" has the focus", func() error {
		if got := p.focus(); got != name {
			return fmt.Errorf("%.80q has it", got)
		}
		return nil
	})
}

// tab presses Tab until the element of the name has the focus.
func (p *page) tab(name string) { p.t.Helper(); p.tabs(name, 0) }

// back is tab with Shift.
func (p *page) back(name string) { p.t.Helper(); p.tabs(name, chromedp.ModifierShift) }

func (p *page) tabs(name string, modifier chromedp.Modifier) {
	p.t.Helper()
	var passed []string
	for range maxTabs {
		p.chord(modifier, kb.Tab)
		got := p.focus()
		p.await("the focus is visible", func() error {
			if !evaluate[bool](p, focusIsVisible) {
				return fmt.Errorf("that of %.80q is not", p.focus())
			}
			return nil
		})
		if got == name {
			return
		}
		passed = append(passed, fmt.Sprintf("%.30q", got))
	}
	p.t.Fatalf("Tab does not reach %q, but %s", name, strings.Join(passed, ", "))
}

// focusIsVisible is whether a person sees which element has the focus: by an outline of
// which two sides are not cut off at least, and that has a contrast of 3 to 1 with what is
// behind it (WCAG 2, level AA), by the border of the editor or of a box in a tree, or
// because the whole page has it.
const focusIsVisible = `(() => {` + contrasts + `
	const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
	if (e.matches("body, main")) return true;
	const outline = style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth), grow = outline + parseFloat(style.outlineOffset) - 0.5;
	const sides = {top: true, left: true, bottom: true, right: true};
	for (let parent = e.parentElement; parent && parent !== document.body; parent = parent.parentElement) {
		if (getComputedStyle(parent).overflowX === "visible") continue;
		const clip = parent.getBoundingClientRect();
		sides.top &&= box.top - grow >= clip.top;
		sides.left &&= box.left - grow >= clip.left;
		sides.bottom &&= box.bottom + grow <= clip.bottom;
		sides.right &&= box.right + grow <= clip.right;
	}
	if (outline >= 1 && Object.values(sides).filter(Boolean).length >= 2) return contrast(style.outlineColor, behind(e.parentElement)) >= 3;
	const probe = document.body.appendChild(document.createElement("i"));
	probe.style.color = "var(--accent)";
	const accent = getComputedStyle(probe).color, shape = e.querySelector("rect"), editor = e.closest(".editor");
	probe.remove();
	return (!!shape && getComputedStyle(shape).stroke === accent) || (!!editor && getComputedStyle(editor).borderColor === accent);
})()`

// TestKeyboard: types and objects are found, filtered, sorted, selected and deleted
// without a mouse. A dialog holds the focus and gives it back.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := filled(t)
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%02d, namespace: shop}\n", i)
	}
	s.Kubectl(many.String(), "create", "-f", "-")
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.sees("Controllers", "checks passed")
	p.tab(evaluate[string](p, `document.querySelector("summary").innerText`))
	p.press(kb.Enter)
	p.sees("checks passed", "ping", "poststarthook/")
	p.press(" ")
	p.lacks("poststarthook/")
	p.tab("not only warnings")
	p.press(" ")
	p.address("events=all")
	p.press("/")
	p.focused("Go to a type")
	p.press("no such type")
	p.sees("No type matches.")
	p.press(kb.Escape, "datab", kb.Tab) // leaving the search closes its menu
	p.await("the menu is closed", func() error {
		if menus := evaluate[int](p, `document.querySelectorAll(".menu").length`); menus != 0 {
			return fmt.Errorf("it is open")
		}
		return nil
	})
	p.press("/")
	p.focused("Go to a type")
	p.press("datab")
	p.run("wait for the menu", chromedp.WaitVisible(chromedp.CSS(".menu a.selected")))
	p.press(kb.Enter)
	p.sees("orders", "users")
	p.tab("orders")
	p.press(kb.ArrowDown)
	p.focused("users")
	p.press(kb.Enter)
	p.sees("Metadata", "users")

	// Types: filter, choice, a type's schema and objects.
	p.visit("#/types")
	p.sees("ConfigMap")
	p.tab("Filter types")
	p.press("cloud.example")
	p.sees("2 of ")
	p.tab("with objects only")
	p.press(" ")
	p.shows(".type-row:not(.head)", "Database", "2")
	p.press(" ")
	p.tab("Database")
	p.press(kb.ArrowDown)
	p.focused("Volume")
	p.press(kb.Home)
	p.focused("Database")
	p.press(kb.Enter)
	p.sees("2 objects")

	// Objects: sorting, namespace, label filter, rows, selection.
	p.tab("Size")
	p.press(kb.Enter)
	p.order("users", "orders")
	p.press(kb.Enter)
	p.order("orders", "users")
	p.back("Label selector")
	p.press("app=users")
	p.order("users")
	for range len("app=users") {
		p.press(kb.Backspace)
	}
	p.order("orders", "users")
	p.tab("Filter rows")
	p.press("mysql")
	p.order("users")
	p.visit("#/objects/core/v1/configmaps")
	p.sees("objects", "c00")
	p.tab("Namespace")
	p.await("namespaces are listed", func() error {
		if options := evaluate[string](p, `document.querySelector('select[aria-label=Namespace]').innerText`); !strings.Contains(options, "shop") {
			return fmt.Errorf("the choice is %q", options)
		}
		return nil
	})
	p.press("s")
	p.sees("41 objects")
	p.tab("Select c00")
	p.press(" ", kb.ArrowDown)
	p.focused("Select c01")
	p.press(" ")
	p.press(kb.End)
	p.focused("Select kube-root-ca.crt")
	p.press(kb.Home, kb.PageDown, kb.PageUp)
	p.focused("Select c00")
	p.sees("Delete 2")
	p.press(kb.Delete)
	p.sees("Delete 2 objects of ConfigMap?", "Nothing depends on them.")
	for range 12 { // the page behind the dialog is out of reach
		p.press(kb.Tab)
		if outside := evaluate[bool](p, `document.activeElement !== document.body && !document.activeElement.closest("dialog")`); outside {
			t.Fatalf("%q has the focus, which is behind the dialog", p.focus())
		}
	}
	p.press(kb.Escape)
	p.lacks("Nothing depends on them.") // the focus returns before the dialog has left the page
	p.focused("Select c00")
	p.press(kb.Delete)
	p.sees("Nothing depends on them.")
	p.tab("Cancel")
	p.press(kb.Enter)
	p.lacks("Nothing depends on them.")
	p.focused("Select c00")
	p.press(kb.Delete)
	p.sees("Nothing depends on them.")
	p.tab("Delete")
	p.press(kb.Enter)
	p.sees("39 objects")
	p.await("the page has the focus", func() error {
		if tag := evaluate[string](p, `document.activeElement.tagName`); tag == "BODY" {
			return fmt.Errorf("nothing has it")
		}
		return nil
	})
}

// TestKeyboardOfObject: the tabs of an object, managed fields, search and folding, the
// values of a Secret, relations, editing with completion and errors, the review, a
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
	p.sees("Metadata")
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
	s := filled(t)
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
