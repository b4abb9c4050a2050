package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func one(name, server, token string) string {
	return strings.NewReplacer("NAME", name, "SERVER", server, "TOKEN", token).Replace(`apiVersion: v1
kind: Config
clusters: [{name: NAME, cluster: {server: SERVER}}]
users: [{name: NAME, user: {token: TOKEN}}]
contexts: [{name: NAME, context: {cluster: NAME, user: NAME}}]
current-context: NAME
`)
}

// TestMerge: entries are added or brought up to date, and none of another server is replaced.
func TestMerge(t *testing.T) {
	const mine, other = "https://127.0.0.1:6443", "https://other:6443"
	for name, c := range map[string]struct {
		before, want string // of the file, or of the error
		use          bool
		current      string
	}{
		"no file":                  {"", "token-2", true, "mini"},
		"another server":           {one("work", other, "token-1"), "token-2", false, "work"},
		"the same server":          {one("mini", mine, "token-1"), "token-2", false, "mini"},
		"a name of another server": {one("mini", other, "token-1"), "choose another name with --context", false, ""},
		"a context that leads to another server": {strings.Replace(one("work", other, "token-1"), "[{name: work, context",
			"[{name: mini, context", 1), "choose another name with --context", true, ""},
		"a context of another user": {strings.Replace(one("mini", mine, "token-1"), "user: mini", "user: ann", 1),
			"choose another name with --context", true, ""},
		"no kubeconfig": {"\x00", "is not a kubeconfig; nothing was changed", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config")
			t.Setenv(clientcmd.RecommendedConfigPathEnvVar, path)
			if c.before != "" {
				if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			file, backup, err := Merge([]byte(one("mini", mine, "token-2")), c.use)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want %s", err, c.want)
				}
				if data, err := os.ReadFile(path); err != nil || string(data) != c.before {
					t.Errorf("the file was changed: %q, %v", data, err)
				}
				return
			}
			merged, err := clientcmd.LoadFromFile(path)
			if err != nil || file != path {
				t.Fatalf("%s: %v", file, err)
			}
			if merged.AuthInfos["mini"].Token != c.want || merged.CurrentContext != c.current {
				t.Errorf("token %s, current context %s", merged.AuthInfos["mini"].Token, merged.CurrentContext)
			}
			if c.before != "" {
				if kept, err := os.ReadFile(backup); err != nil || string(kept) != c.before {
					t.Errorf("kept in %q: %q, %v", backup, kept, err)
				}
			}
			if _, backup, err := Merge([]byte(one("mini", mine, "token-2")), c.use); err != nil || backup != "" {
				t.Errorf("the second time: %q, %v", backup, err)
			}
		})
	}
}
