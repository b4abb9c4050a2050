package checks_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the directory of the internal packages, and module the import path of all.
const (
	root   = ".."
	module = "kube-hyper-mini.io/kube-hyper-mini/"
)

// public has the packages that other programs may import, by name.
var public = map[string]string{"config": "../../config", "controlplane": "../../controlplane"}

// directory returns where the package name is.
func directory(name string) string {
	room, below, _ := strings.Cut(name, "/")
	if dir, ok := public[room]; ok {
		return filepath.Join(dir, below)
	}
	return filepath.Join(root, name)
}

// packageImports returns the imports of each package, without those of tests. Internal
// packages have their path below internal as their name, public ones that in the module.
func packageImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	addImports(t, imports, "", root)
	for name, dir := range public {
		addImports(t, imports, name, dir)
	}
	return imports
}

// addImports adds the imports of the packages in dir, whose names begin with prefix.
func addImports(t *testing.T, imports map[string][]string, prefix, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "web" || entry.Name() == "examples") { // sources of the console, modules
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		name := filepath.ToSlash(filepath.Join(prefix, below))
		imports[name] = append(imports[name], "") // also a package that imports nothing
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[name] = append(imports[name], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// floors returns the line of each package in the picture of ARCHITECTURE.md.
func floors(t *testing.T, document string) map[string]int {
	t.Helper()
	_, picture, found := strings.Cut(document, "## The house\n")
	picture, _, _ = strings.Cut(picture, "\n| package")
	if !found {
		t.Fatal("ARCHITECTURE.md has no picture")
	}
	lines := map[string]int{}
	number := 0
	for line := range strings.Lines(picture) {
		number++
		names, isPicture := strings.CutPrefix(line, "    ")
		names, _, _ = strings.Cut(names, "  --")
		if !isPicture {
			continue
		}
		for _, name := range strings.Fields(names) {
			if _, twice := lines[name]; twice {
				t.Errorf("the picture has %s twice", name)
			}
			lines[name] = number
		}
	}
	return lines
}

// TestArchitectureNamesAllPackages: each package is in the table, each directory of
// internal is in the picture, and imports go down only.
func TestArchitectureNamesAllPackages(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	document := string(data)
	lines, imports := floors(t, document), packageImports(t)
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		room, _, below := strings.Cut(name, "/")
		if !strings.Contains(document, "`"+name+"`") {
			t.Errorf("ARCHITECTURE.md does not name the package %s", name)
		}
		if lines[room] == 0 && !below {
			t.Errorf("the picture in ARCHITECTURE.md lacks %s", room)
		}
		for _, imported := range imports[name] {
			imported, ours := strings.CutPrefix(imported, module)
			imported, _, _ = strings.Cut(strings.TrimPrefix(imported, "internal/"), "/")
			if ours && imported != room && lines[imported] <= lines[room] {
				t.Errorf("%s imports %s, which is not below it in the picture of ARCHITECTURE.md", name, imported)
			}
		}
	}
	for name := range lines {
		if _, err := os.Stat(directory(name)); err != nil && name != "main.go" {
			t.Errorf("the picture in ARCHITECTURE.md has %s: %v", name, err)
		}
	}
}

// TestArchitectureNamesFilesThatExist: paths are relative to internal.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z0-9_]+/[a-z0-9_/]*[a-z0-9_]+\\.go)`").FindAllStringSubmatch(string(data), -1)
	if len(names) == 0 {
		t.Fatal("ARCHITECTURE.md names no file")
	}
	for _, name := range names {
		if _, err := os.Stat(directory(name[1])); err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", name[1], err)
		}
	}
}

// TestImportersOfKubernetes: the packages that ARCHITECTURE.md names, and no others,
// import k8s.io/kubernetes.
func TestImportersOfKubernetes(t *testing.T) {
	allowed := []string{"apiserver", "controllers", "crds", "kubernetes", "upstream"}
	for name, imports := range packageImports(t) {
		room, _, _ := strings.Cut(name, "/")
		for _, imported := range imports {
			if strings.HasPrefix(imported, "k8s.io/kubernetes/") && !slices.Contains(allowed, room) {
				t.Errorf("%s imports %s", name, imported)
			}
			if strings.HasPrefix(imported, "k8s.io/kubernetes/cmd/") {
				t.Errorf("%s imports %s: commands of Kubernetes are not libraries", name, imported)
			}
			if strings.HasPrefix(imported, "k8s.io/kubernetes/pkg/controlplane") && !strings.HasPrefix(imported, "k8s.io/kubernetes/pkg/controlplane/apiserver") && room != "kubernetes" && name != "upstream/workloads" {
				t.Errorf("%s imports %s", name, imported)
			}
		}
	}
}

// TestFastTestsNameAllPackages: the list of fast end-to-end tests has each directory of
// internal, with a test or as one without.
func TestFastTestsNameAllPackages(t *testing.T) {
	script, err := os.ReadFile("../../scripts/e2e-fast.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name := range packageImports(t) {
		if room, _, below := strings.Cut(name, "/"); !below && !regexp.MustCompile(`\b`+room+`\b`).Match(script) {
			t.Errorf("scripts/e2e-fast.sh does not name the package %s", name)
		}
	}
}
