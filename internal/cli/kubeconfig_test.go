package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubeconfigBadCommandLines: none of these prints or writes a key.
func TestKubeconfigBadCommandLines(t *testing.T) {
	dir := t.TempDir()
	secret := "apiVersion: v1\nkind: Config\nusers: [{name: kube-hyper-mini, user: {token: very-secret}}]\n"
	if err := os.WriteFile(filepath.Join(dir, "admin.kubeconfig"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(dir, "there.kubeconfig")
	if err := os.WriteFile(there, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"create", "jane", "-o", there}, "--force replaces it"},
		{[]string{"create", "jane", "--force"}, "--force needs --output"},
		{[]string{"create", "jane", "--role", "owner"}, `--role "owner" is not supported; allowed: view, edit, admin`},
		{[]string{"create", "jane", "--namespace", "Team A"}, `--namespace "Team A" is not the name of a namespace`},
		{[]string{"create", "jane", "--expires", "soon"}, `"soon" is not a duration; write a number with a unit`},
	} {
		out, errs, code := runCLI(t, append([]string{"kubeconfig", "--data-dir", dir}, c.args...)...)
		if code != ExitUsage || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%v: exit code %d, want %q:\n%s%s", c.args, code, c.want, out, errs)
		}
	}
	if data, err := os.ReadFile(there); err != nil || string(data) != "kept" {
		t.Errorf("the file is now %q, %v", data, err)
	}
}

// TestDurationFlags: each flag for a duration takes days and years, and prints days.
func TestDurationFlags(t *testing.T) {
	for _, line := range []string{
		"status --wait", "run --grace", "certs rotate --overlap", "kubeconfig create --expires",
	} {
		words := strings.Fields(line)
		cmd, _, err := newRoot(io.Discard).Find(words[:len(words)-1])
		if err != nil {
			t.Fatal(err)
		}
		flag := cmd.Flags().Lookup(strings.TrimPrefix(words[len(words)-1], "--"))
		for text, want := range map[string]string{"1y": "365d", "30d": "30d", "36h": "36h0m0s"} {
			if err := flag.Value.Set(text); err != nil || flag.Value.String() != want {
				t.Errorf("%s %s is %s: %v", line, text, flag.Value, err)
			}
		}
		if err := flag.Value.Set("month"); err == nil {
			t.Errorf("%s month is %s", line, flag.Value)
		}
	}
}

// TestTildeInFlags: a path that no shell has expanded is a mistake.
func TestTildeInFlags(t *testing.T) {
	for _, flag := range []string{"--data-dir=~/x", "--config=~/x"} {
		if _, errs, code := runCLI(t, "backup", "list", flag); code != ExitUsage || !strings.Contains(errs, "write the whole path") {
			t.Errorf("%s: %d %s", flag, code, errs)
		}
	}
}
