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

// TestEditChangesOnlyThat: an edit takes over nothing but the fields that it changes, so that what
// their owner removes and changes later is removed and changed.
func TestEditChangesOnlyThat(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	apply := func(data string) {
		t.Helper()
		object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owned, namespace: default}\ndata: " + data
		s.Kubectl(object, "apply", "--server-side", "--field-manager=gitops", "-f", "-")
	}
	apply("{a: one, b: two}")
	const mine = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  namespace: default\n" +
		"  labels: {constructor: console}\n"
	p := open(t, launch(t, "--data-dir", s.Dir), "#/edit/core/v1/configmaps/default/owned")
	p.write(mine + "data: {a: one, b: two}\n")
	p.click("Review")
	p.sees("dry run")
	p.lacks("Apply takes over")
	p.click("Apply")
	p.sees("Metadata", "constructor")
	apply("{a: changed}")
	has := func(want string) {
		t.Helper()
		got := s.Kubectl("", "get", "configmap", "owned", "-o", "jsonpath={.data} {.metadata.labels}")
		harness.Contains(t, got, want)
	}
	has(`{"a":"changed"} {"constructor":"console"}`)

	// Fields of another manager are listed before they are changed or removed.
	apply("{a: one, b: two, c: three}")
	p.visit("#/edit/core/v1/configmaps/default/owned")
	p.sees("c: three")
	p.write(mine + "data: {a: mine, c: three}\n")
	p.click("Review")
	p.sees("Other managers own fields that you change", "data.a is owned by gitops", "data.b is owned by gitops")
	p.lacks("data.c is owned")
	p.click("Take the fields over")
	p.sees("dry run", "Apply takes over data.a, data.b.")
	p.click("Apply")
	p.sees("Metadata", "mine")
	has(`{"a":"mine","c":"three"} {"constructor":"console"}`)
}

// TestEditRemoves: fields and finalizers that are removed in the editor are gone, whoever
// set them. The annotation that the editor does not show stays.
func TestEditRemoves(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	const stuck = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: stuck\n  namespace: default\n"
	const finalizers = "  finalizers: [example.org/gone]\n"
	s.Kubectl(stuck+"  annotations: {note: old}\n"+finalizers+"data: {a: one, b: two}\n", "apply", "-f", "-")
	p := open(t, launch(t, "--data-dir", s.Dir), "#/edit/core/v1/configmaps/default/stuck")
	p.write(stuck + finalizers + "data: {a: one}\n")
	p.click("Review")
	p.sees("A person has set fields that you change", "data.b is owned by kubectl-client-side-apply")
	p.sees("metadata.annotations.note")
	p.click("Take the fields over")
	p.sees("dry run")
	p.click("Apply")
	p.sees("Metadata")
	left := s.Kubectl("", "get", "configmap", "stuck", "-o", "jsonpath={.data} {.metadata.annotations}")
	harness.Contains(t, left, `{"a":"one"}`, "last-applied-configuration")
	if strings.Contains(left, `"note":"old"`) {
		t.Errorf("the annotation is left: %s", left)
	}

	s.Kubectl("", "delete", "configmap", "stuck", "--wait=false")
	p.visit("#/edit/core/v1/configmaps/default/stuck")
	p.sees("finalizers")
	p.write(stuck + "data: {a: one}\n")
	p.click("Review")
	p.sees("A person has set fields that you change", "example.org/gone")
	p.click("Take the fields over")
	p.sees("dry run")
	p.click("Apply")
	p.sees("kube-root-ca.crt") // the list: the object is gone
	p.lacks("stuck")
	if out, err := s.TryKubectl("", "get", "configmap", "stuck"); err == nil {
		t.Errorf("it is left: %s", out)
	}
}

// TestCreateWithGeneratedName: the server names the object, which the page then opens.
func TestCreateWithGeneratedName(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/new/core/v1/configmaps?ns=default")
	p.write("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: default}\n")
	p.click("Review")
	p.sees("metadata.name is missing")
	p.write("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-, namespace: default}\n")
	p.click("Review")
	p.sees("dry run", "made-")
	p.click("Create")
	p.address("#/object/core/v1/configmaps/default/made-")
	p.sees("Metadata", "made-")
}
