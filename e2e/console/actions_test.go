package console

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestTypesAndObjects: the types with objects and their numbers, sorting, a
// namespace, a selection that is deleted, and what goes with a namespace or a CRD.
func TestTypesAndObjects(t *testing.T) {
	t.Parallel()
	s := filled(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/types?show=populated&q=cloud.example")
	p.sees("Database", "Volume")
	p.shows(".type-row:not(.head)", "Database", "2")
	s.Kubectl("", "delete", "volumes", "--all", "-n", "shop")
	p.visit("#/types")
	p.visit("#/types?show=populated&q=cloud.example")
	p.run("count again", reload())
	p.sees("1 of ", "Database")
	p.lacks("Volume")

	p.visit("#/objects/cloud.example.org/v1/databases?sort=Size")
	p.order("users", "orders")
	p.click("Size ↑")
	p.order("orders", "users")
	p.run("reload", reload())
	p.sees("Size ↓")
	p.order("orders", "users")
	p.await("the namespace can be selected", func() error { // the page lists namespaces beside the objects
		if selected := evaluate[bool](p, `(() => {
			const select = document.querySelector('select[aria-label=Namespace]');
			if (![...select.options].some((option) => option.value === "default")) return false;
			select.value = "default";
			select.dispatchEvent(new Event("change", {bubbles: true}));
			return true;
		})()`); !selected {
			return errors.New("it has no such option")
		}
		return nil
	})
	p.sees("0 objects", "No objects.")

	for _, name := range []string{"a", "b", "c"} {
		s.Kubectl("", "create", "configmap", name, "-n", "shop")
		s.Kubectl("", "label", "configmap", name, "-n", "shop", "pick="+fmt.Sprint(name != "c"))
	}
	p.visit("#/objects/core/v1/configmaps?ns=shop&labels=pick%3Dtrue")
	p.sees("2 objects")
	p.run("select all", clickIn(`[aria-label="Select all"]`))
	p.click("Delete 2")
	p.sees("Delete 2 objects of ConfigMap?", "a, b", "Nothing depends on them.")
	p.run("delete", clickIn("dialog[open] .danger"))
	p.sees("0 objects")
	harness.Contains(t, s.Kubectl("", "get", "configmaps", "-n", "shop"), "c")
	if left := s.Kubectl("", "get", "configmaps", "-n", "shop", "-l", "pick=true", "-o", "name"); left != "" {
		t.Errorf("these are left: %s", left)
	}

	p.visit("#/object/core/v1/namespaces/-/shop")
	p.click("Delete")
	p.sees("Delete Namespace shop?", "All that it contains is deleted", "2 Database", "1 Secret")
	p.click("Cancel")
	p.visit("#/object/apiextensions.k8s.io/v1/customresourcedefinitions/-/databases.cloud.example.org")
	p.sees("CustomResourceDefinition", "databases.cloud.example.org") // the page before has such a button, too
	p.click("Delete")
	p.sees("All that it contains is deleted", "2 Database")
	p.click("Cancel")
}

// shows waits until an element of the selector has all texts.
func (p *page) shows(selector string, texts ...string) {
	p.t.Helper()
	p.await(fmt.Sprintf("%q", texts), func() error {
		rows := evaluate[[]string](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.innerText)`, selector))
		for _, row := range rows {
			missing := false
			for _, text := range texts {
				missing = missing || !strings.Contains(row, text)
			}
			if !missing {
				return nil
			}
		}
		return fmt.Errorf("the rows are %q", rows)
	})
}

// order waits until the objects are shown in this order.
func (p *page) order(names ...string) {
	p.t.Helper()
	p.await(fmt.Sprintf("the order %q", names), func() error {
		shown := evaluate[[]string](p, `[...document.querySelectorAll(".row-slot a")].map((e) => e.innerText)`)
		if strings.Join(shown, " ") != strings.Join(names, " ") {
			return fmt.Errorf("it is %q", shown)
		}
		return nil
	})
}
