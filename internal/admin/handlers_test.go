package admin

import (
	"os"
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
