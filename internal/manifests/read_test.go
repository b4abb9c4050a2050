package manifests

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
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
	objects, errs := readAll(os.DirFS(dir), Everything)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if got, want := names(objects), "a b c e d f"; got != want {
		t.Fatalf("read %q, want %q", got, want)
	}
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
		"template":         {"kind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n", "helm template"},
		"object twice":     {configMap("other"), "ConfigMap other is also in a.yaml"},
		"list item":        {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap}]\n", "has no metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"a.yaml": configMap("other"), "bad.yaml": c.content, "z.yaml": configMap("last")})
			objects, errs := readAll(os.DirFS(dir), Everything)
			err := errors.Join(append(errs, duplicates(objects)...)...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
			if got := names(objects); !strings.HasPrefix(got, "other") || !strings.HasSuffix(got, "last") {
				t.Errorf("the others were not read: %q", got)
			}
		})
	}
}

func TestScanNoticesChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"..1/a.yaml": configMap("a"), "..2/a.yaml": configMap("changed"), "..data": "-> ..1", "a.yaml": "-> ..data/a.yaml"})
	before, err := scan(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := scan(os.DirFS(dir)); err != nil || !maps.Equal(before, again) {
		t.Fatalf("without a change: %v became %v (%v)", before, again, err)
	}
	if err := os.Remove(filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"..data": "-> ..2"})
	if after, err := scan(os.DirFS(dir)); err != nil || maps.Equal(before, after) {
		t.Fatalf("an exchanged link was not noticed: %v (%v)", after, err)
	}
}
