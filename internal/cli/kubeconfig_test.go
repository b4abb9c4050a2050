package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	for _, name := range []string{"HOME", "KUBECONFIG", "HOMEDRIVE", "HOMEPATH", "USERPROFILE"} { // the last three: Windows
		t.Setenv(name, "")
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--use"}, "--use needs --merge"},
		{[]string{"--into", "x"}, "--into needs --merge"},
		{[]string{"--context", "x"}, "--context needs --merge"},
		{[]string{"--merge"}, "HOME and KUBECONFIG are not set; name the file with --into"},
		{[]string{"create", "jane", "-o", there}, "--force replaces it"},
		{[]string{"create", "jane", "--force"}, "--force needs --output"},
		{[]string{"create", "jane", "--role", "owner"}, `--role "owner" is not supported; allowed: view, edit, admin`},
		{[]string{"create", "jane", "--namespace", "Team A"}, `--namespace "Team A" is not the name of a namespace`},
		{[]string{"create", "jane", "--expires", "soon"}, `"soon" is not a duration; write it as 12h or 30d`},
		{[]string{"create", "jane", "--expires", "5m"}, "--expires 5m0s is too short; at least 10m"},
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

// TestUserKubeconfig is the file that kubectl writes to.
func TestUserKubeconfig(t *testing.T) {
	dir := t.TempDir()
	there, none, last := filepath.Join(dir, "there"), filepath.Join(dir, "none"), filepath.Join(dir, "last")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	for _, c := range []struct {
		list []string
		want string
	}{
		{nil, filepath.Join(dir, ".kube", "config")},
		{[]string{none}, none},
		{[]string{none, there, last}, there},
		{[]string{none, last}, last},
		{[]string{none, last, ""}, last},
	} {
		t.Setenv("KUBECONFIG", strings.Join(c.list, string(filepath.ListSeparator)))
		if got, err := userKubeconfig(); err != nil || got != c.want {
			t.Errorf("%q: got %s (%v), want %s", c.list, got, err, c.want)
		}
	}
}

func TestLifetime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute, "2w": 14 * day, "1.5h": 90 * time.Minute, "720h": 30 * day,
	} {
		var got lifetime
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("%s is %v, %v", text, time.Duration(got), err)
		}
	}
	for _, text := range []string{"", "30", "d", "-1d", "month"} {
		var got lifetime
		if err := got.Set(text); err == nil {
			t.Errorf("%q is %v", text, time.Duration(got))
		}
	}
	if got := lifetime(30 * day); got.String() != "30d" {
		t.Errorf("30 days are %s", got.String())
	}
}
