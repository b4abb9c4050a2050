package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
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
	p.focused("Find types and objects")
	p.press("no such type")
	p.sees("No type or object matches.")
	p.press(kb.Escape, "datab", kb.Tab) // leaving the search closes its menu
	p.await("the menu is closed", func() error {
		if menus := evaluate[int](p, `document.querySelectorAll(".menu").length`); menus != 0 {
			return fmt.Errorf("it is open")
		}
		return nil
	})
	p.press("/")
	p.focused("Find types and objects")
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
	// A link that is followed before the pause after typing is over, in a busy browser.
	p.press("x")
	evaluate[any](p, `location.hash = "#/objects/core/v1/configmaps"
		for (const end = Date.now() + 500; Date.now() < end;);`)
	p.sees("objects", "c00")
	p.back("Namespace")
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
