package upstream

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	update = flag.Bool("update", false, "record the hashes of the mirrored symbols as they are now")
	before = flag.String("before", "", "path of an earlier go.mod: print what has changed in each symbol since its versions")
)

const (
	sums = "symbols.sum"
	root = "../.." // of the module
)

func readSums(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 2 {
			recorded[fields[0]] = fields[1]
		}
	}
	return recorded
}

// TestMirroredSymbols fails when a library has changed a symbol that this
// program repeats or relies on, with the words of the fact.
func TestMirroredSymbols(t *testing.T) {
	facts, err := Facts(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := Modules(root)
	if err != nil {
		t.Fatal(err)
	}
	// The go command caches the result unless a file that the test reads has changed.
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	recorded, current := readSums(t), map[string]string{}
	for _, fact := range facts {
		var changes []string
		for _, symbol := range fact.Mirrors {
			module, dir, name, err := Locate(modules, symbol)
			if err != nil {
				t.Errorf("internal/%s:%d: %v", fact.File, fact.Line, err)
				continue
			}
			hash, err := Hash(dir, name)
			switch {
			case err != nil:
				changes = append(changes, fmt.Sprintf("%s of %s %s: %v", symbol, module.Path, module.Version, err))
			case recorded[symbol] == "":
				changes = append(changes, fmt.Sprintf("%s of %s %s: not recorded", symbol, module.Path, module.Version))
			case recorded[symbol] != hash:
				changes = append(changes, fmt.Sprintf("%s of %s %s: changed", symbol, module.Path, module.Version)+difference(t, modules, symbol, dir))
			}
			if err == nil {
				current[symbol] = hash
			} else if *update {
				t.Errorf("%s: %v", symbol, err)
			}
		}
		if len(changes) > 0 && !*update {
			t.Errorf("%s (internal/%s:%d)\n  %s\n  why:    %s\n  gain:   %s\n  breaks: %s",
				fact.Title, fact.File, fact.Line, strings.Join(changes, "\n  "), fact.Why, fact.Gain, fact.Breaks)
		}
	}
	if *update {
		writeSums(t, current)
		return
	}
	for symbol := range recorded {
		if current[symbol] == "" && !slices.ContainsFunc(facts, func(f Fact) bool { return slices.Contains(f.Mirrors, symbol) }) {
			t.Errorf("%s has %s, which no fact mirrors: run this test with -update", sums, symbol)
		}
	}
}

// difference returns the changes of a symbol since the versions of the flag before, or why they
// are not known; nothing without the flag. The declaration is in dir now.
func difference(t *testing.T, modules []Module, symbol, dir string) string {
	t.Helper()
	if *before == "" {
		return ""
	}
	former, name, err := Former(*before, modules, symbol)
	text := ""
	if err == nil {
		text, err = Diff(t.TempDir(), former, dir, name)
	}
	if err != nil {
		text = err.Error()
	}
	return "\n      " + strings.ReplaceAll(text, "\n", "\n      ")
}

func writeSums(t *testing.T, current map[string]string) {
	t.Helper()
	var text strings.Builder
	for _, symbol := range slices.Sorted(maps.Keys(current)) {
		fmt.Fprintln(&text, symbol, current[symbol])
	}
	if err := os.WriteFile(sums, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFactsNameTestsThatExist: a fact says which tests notice that it has changed, or why
// there is none.
func TestFactsNameTestsThatExist(t *testing.T) {
	declaration, name := regexp.MustCompile(`(?m)^func (Test\w+)\(`), regexp.MustCompile(`\bTest[A-Z]\w+`)
	declared := map[string]bool{}
	for _, dir := range []string{"internal", "e2e", "controlplane"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, match := range declaration.FindAllSubmatch(source, -1) {
				declared[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	facts, err := Facts(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, fact := range facts {
		for _, test := range name.FindAllString(fact.Breaks+fact.Gain, -1) {
			if !declared[test] {
				t.Errorf("internal/upstream/%s:%d names %s, which does not exist", fact.File, fact.Line, test)
			}
		}
		if !name.MatchString(fact.Breaks) && !strings.Contains(fact.Breaks, "No test: ") {
			t.Errorf("internal/upstream/%s:%d names no test in Breaks, and does not say why: write \"No test: \" and the reason", fact.File, fact.Line)
		}
	}
}

// TestEveryFileStatesAFact: each file inside the fence states one fact, and no file
// outside of it does.
func TestEveryFileStatesAFact(t *testing.T) {
	facts, err := Facts(".")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Facts("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, fact := range all {
		if !strings.HasPrefix(fact.File, "upstream/") {
			t.Errorf("internal/%s:%d states a fact about upstream: move it and the code that relies on it to internal/upstream", fact.File, fact.Line)
		}
	}
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "doc.go" {
			continue
		}
		count := 0
		for _, fact := range facts {
			if fact.File == filepath.ToSlash(file) {
				count++
			}
		}
		if count != 1 {
			t.Errorf("%s states %d facts about upstream, not one", file, count)
		}
	}
}
