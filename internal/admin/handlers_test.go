package admin

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityNamesAllPaths: SECURITY.md says what the right to each path is good for.
func TestSecurityNamesAllPaths(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.github/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for path := range Handlers(nil, nil, nil, nil, nil) {
		if !strings.Contains(string(text), "`"+path+"`") {
			t.Errorf("%s is not in SECURITY.md", path)
		}
	}
}

// TestSecurityNamesTests: each test that SECURITY.md runs for a claim exists.
func TestSecurityNamesTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.github/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range regexp.MustCompile("go test ([^`]*) -run '?(Test[A-Za-z|\\\\]+)").FindAllStringSubmatch(string(text), -1) {
		var sources strings.Builder
		for _, dir := range strings.Fields(run[1]) {
			files, _ := filepath.Glob("../../" + dir + "/*_test.go") // the pattern is valid
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources.Write(source)
			}
		}
		for _, name := range strings.Split(strings.ReplaceAll(run[2], "\\", ""), "|") {
			if !strings.Contains(sources.String(), "\nfunc "+name) {
				t.Errorf("%s has no test %s", run[1], name)
			}
		}
	}
}
