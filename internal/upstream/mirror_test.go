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

// TestDiff: the changes of a declaration are lines of a diff.
func TestDiff(t *testing.T) {
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for i, source := range []string{"package x\n\nfunc F() {\n\twait(5)\n}\n", "package x\n\nfunc F() {\n\twait(6)\n}\n"} {
		if err := os.WriteFile(filepath.Join(dirs[i], "x.go"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Diff(t.TempDir(), dirs[0], dirs[1], "F")
	if err != nil || !strings.Contains(got, "\n-\twait(5)\n+\twait(6)\n") {
		t.Errorf("%v:\n%s", err, got)
	}
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

// TestHashIgnoresComments: the hash depends on tokens, not on comments.
func TestHashIgnoresComments(t *testing.T) {
	hash := func(source, name string) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n"+source), 0o600); err != nil {
			t.Fatal(err)
		}
		hash, err := Hash(dir, name)
		if err != nil {
			return err.Error()
		}
		return hash
	}
	const method = "func (t *T[K]) M() { wait(5) }"
	want := hash(method, "T.M")
	for source, same := range map[string]bool{
		"// doc\n" + method:                           true,
		"func (t *T[K]) M() { wait(5) /* why */ }":    true,
		"func other() {}\n" + method:                  true,
		"func (t *T[K]) M() { wait(6) }":              false,
		"func (t *T[K]) M() { wait(5); wait(5) }":     false,
		"func (t *T[K]) M() {\n\t// why\n\twait(5) }": true,
	} {
		if got := hash(source, "T.M"); (got == want) != same {
			t.Errorf("%q: hash %s, that of the original is %s", source, got, want)
		}
	}
	const body = "func F() {\n\tif ok {\n\t\twait(5)\n\t}\n\tother()\n}"
	if one, other := hash(body, "F#wait("), hash(strings.Replace(body, "other", "another", 1), "F#wait("); one != other || len(one) != 16 {
		t.Errorf("a change of another statement changes the hash %q to %q", one, other)
	}
	if one, other := hash(body, "F#wait("), hash(strings.Replace(body, "5", "6", 1), "F#wait("); one == other {
		t.Error("a change of the statement is not seen")
	}
	if got := hash(body, "F#gone("); got != "does not exist" {
		t.Errorf("a missing statement: %s", got)
	}
	if got := hash(method, "T.N"); got != "does not exist" {
		t.Errorf("a missing method: %s", got)
	}
	if one, other := hash("const (\n\tA = 1\n\tB = 2\n)", "A"), hash("const (\n\tA = 1\n\tB = 3\n)", "A"); one != other {
		t.Error("a change of B changes A")
	}
}

// TestBrokenFactsAreRefused: a fact without its reasons helps no one at a bump.
func TestBrokenFactsAreRefused(t *testing.T) {
	for name, source := range map[string]string{
		"no reason":  "// Upstream fact: x\n//\n// Mirrors: a.B\n// Gain: y\n// Breaks: z",
		"no symbols": "// Upstream fact: x\n//\n// Why: w\n// Gain: y\n// Breaks: z",
		"not Go":     "func",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n\n"+source+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Facts(dir); err == nil || !strings.Contains(err.Error(), "x.go") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
