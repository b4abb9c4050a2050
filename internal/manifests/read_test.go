package manifests

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes the files of a directory; a value that begins with "-> " makes
// a link.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(content, "-> "); link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
}

func names(objects []object) string {
	var list []string
	for _, o := range objects {
		list = append(list, o.GetName())
	}
	return strings.Join(list, " ")
}

func TestFilesAreReadInPathOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"20-b.yml":         configMap("c"),
		"10-a.yaml":        "# comments only\n---\n" + configMap("a") + "---\n" + configMap("b"),
		"36/x.json":        `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}`,
		"README.md":        "not a manifest",
		".hidden.yaml":     configMap("hidden"),
		"..2026/e.yaml":    configMap("f"),
		"40-linked.yaml":   "-> ..2026/e.yaml", // how volumes of config maps look
		"35-list.yaml":     "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: e}}\n",
		".git/config.yaml": configMap("hidden"),
	})
	files, err := scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	objects, _, err := readAll(dir, files, Everything)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(objects), "a b c e d f"; got != want {
		t.Fatalf("read %q, want %q", got, want)
	}
}

// readAll reads the files, and returns what is wrong with them as one error.
func readAll(dir string, files map[string]fileState, only Only) (objects []object, skipped []string, err error) {
	objects, skipped, errs := read(dir, files, only)
	return objects, skipped, errors.Join(append(errs, duplicates(objects)...)...)
}

func TestUnreadableFilesAreReportedAndOthersRead(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"broken YAML":      {"apiVersion: v1\nkind: [", "bad.yaml: not valid YAML"},
		"second document":  {configMap("good") + "---\n{", "bad.yaml (document 2): not valid YAML"},
		"key twice":        {configMap("x") + "kind: Secret\n", "already set"},
		"not an object":    {"- a\n- b\n", "not an object"},
		"no kind":          {"apiVersion: v1\nmetadata: {name: x}\n", "apiVersion or kind is missing"},
		"no name":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x-}\n", "has no metadata.name"},
		"name is a number": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 5}\n", "has no metadata.name"},
		"kind is a number": {"apiVersion: v1\nkind: 5\nmetadata: {name: x}\n", "bad.yaml"},
		"object twice":     {configMap("other"), "ConfigMap other is also in a.yaml"},
		"list item":        {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap}]\n", "has no metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"a.yaml": configMap("other"), "bad.yaml": c.content, "z.yaml": configMap("last")})
			files, err := scan(dir)
			if err != nil {
				t.Fatal(err)
			}
			objects, _, err := readAll(dir, files, Everything)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
			if got := names(objects); !strings.HasPrefix(got, "other") || !strings.HasSuffix(got, "last") {
				t.Errorf("the others were not read: %q", got)
			}
		})
	}
}

// TestTemplatesOfCharts: templates are no manifests. Where only CRDs are read, templates
// of other objects are skipped; a chart's files without actions are read.
func TestTemplatesOfCharts(t *testing.T) {
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\n"
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"chart/Chart.yaml":                  "apiVersion: v2\nname: widgets\n",
		"chart/values.yaml":                 "replicas: 1\n",
		"chart/crds/a.yaml":                 fmt.Sprintf(crd, "a"),
		"chart/templates/b.yaml":            fmt.Sprintf(crd, "b"),
		"chart/templates/app/web.yaml":      "{{- if .Values.web }}\nkind: Deployment\n{{- end }}\n",
		"chart/templates/quoted.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n",
		"templates/of-another-program.yaml": fmt.Sprintf(crd, "c") + "spec: {description: \"{{ braces }}\"}\n",
	})
	files, err := scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	objects, skipped, err := readAll(dir, files, CRDs)
	if err != nil || names(objects) != "a b c" {
		t.Errorf("read %q, %v", names(objects), err)
	}
	templates := filepath.Join(dir, "chart", "templates")
	if want := []string{filepath.Join(templates, "app", "web.yaml"), filepath.Join(templates, "quoted.yaml")}; !slices.Equal(skipped, want) {
		t.Errorf("skipped %q, want %q", skipped, want)
	}
	const says = "chart/templates/quoted.yaml is a template of the Helm chart %s: apply the output of \"helm template %[1]s\" instead"
	want := fmt.Sprintf(filepath.FromSlash(says), filepath.Join(dir, "chart"))
	if _, _, err := readAll(dir, files, Everything); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("as manifests: %v, want %q", err, want)
	}
	write(t, templates, map[string]string{"crd.yaml": "{{- if .Values.crds }}\n" + fmt.Sprintf(crd, "d") + "{{- end }}\n"})
	if files, err = scan(templates); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readAll(templates, files, CRDs); err == nil || !strings.Contains(err.Error(), "crd.yaml is a template of the Helm chart") {
		t.Errorf("a CRD in a template: %v", err)
	}
}

func TestScanNoticesChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"..1/a.yaml": configMap("a"), "..2/a.yaml": configMap("changed"), "..data": "-> ..1", "a.yaml": "-> ..data/a.yaml"})
	before, err := scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := scan(dir); err != nil || !maps.Equal(before, again) {
		t.Fatalf("without a change: %v became %v (%v)", before, again, err)
	}
	if err := os.Remove(filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"..data": "-> ..2"})
	if after, err := scan(dir); err != nil || maps.Equal(before, after) {
		t.Fatalf("an exchanged link was not noticed: %v (%v)", after, err)
	}
}

func TestMissingDirectoryIsAnError(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"file": ""})
	for _, path := range []string{"missing", "file"} {
		if files, err := scan(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s looks like a directory with %v", path, files)
		}
	}
}
