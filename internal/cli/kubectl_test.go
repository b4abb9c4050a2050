package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// noServerHere makes an empty directory the machine's default data directory, that of the user.
func noServerHere(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/var/lib/kube-hyper-mini"); os.Geteuid() == 0 && err == nil {
		t.Skip("root has a server on this machine")
	}
	t.Setenv("KUBE_HYPER_MINI_DATA_DIR", "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
}

// TestKubectlUsesTheNamedServer: a server that is named on the command line, and that of this
// machine, come before KUBECONFIG, which may lead to another one.
func TestKubectlUsesTheNamedServer(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "admin.kubeconfig")
	local, file := t.TempDir(), filepath.Join(dir, "config.yaml")
	put(t, filepath.Join(local, "admin.kubeconfig"), "")
	put(t, file, "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\ndataDir: .\n")
	for name, c := range map[string]struct {
		kubeconfig, dataDir string // of the environment
		args                []string
		want                string // KUBECONFIG of kubectl
	}{
		"named":                 {"/other", "", []string{"--data-dir", dir, "get", "pods"}, own},
		"named with =":          {"/other", "", []string{"--data-dir=" + dir, "get", "pods"}, own},
		"not named":             {"/other", "", []string{"get", "pods"}, "/other"},
		"by the variable":       {"/other", dir, []string{"get", "pods"}, own},
		"a local server":        {"/other", local, []string{"get", "pods"}, filepath.Join(local, "admin.kubeconfig")},
		"no KUBECONFIG":         {"", dir, []string{"get", "pods"}, own},
		"--kubeconfig":          {"/other", "", []string{"--data-dir", dir, "get", "pods", "--kubeconfig", "/third"}, "/other"},
		"named by --config":     {"/other", "/third", []string{"--config", file, "get", "pods"}, own},
		"another's command's":   {"", dir, []string{"plugin", "--", "--kubeconfig=/third"}, own},
		"--kubeconfig, no more": {"", dir, []string{"get", "pods", "--kubeconfig=/third"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			noServerHere(t)
			t.Setenv("KUBECONFIG", c.kubeconfig)
			t.Setenv("KUBE_HYPER_MINI_DATA_DIR", c.dataDir)
			if _, _, err := kubectlKubeconfig(&cobra.Command{}, c.args); err != nil {
				t.Fatal(err)
			}
			if got := os.Getenv("KUBECONFIG"); got != c.want {
				t.Errorf("kubectl gets %q, want %q", got, c.want)
			}
		})
	}
}

// TestKubectlConfigWithoutAServer: `kubectl config` edits the user's file where the server
// has no kubeconfig. It would write one into the data directory.
func TestKubectlConfigWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	dataDir := filepath.Join(dir, "data")
	noServerHere(t)
	for name, c := range map[string]struct {
		args []string
		want string // name of KUBECONFIG of kubectl
	}{
		"its command":          {[]string{"config", "set-context", "foo", "--cluster=x"}, ""},
		"after flags":          {[]string{"--context", "foo", "-n", "bar", "config", "view"}, ""},
		"another command":      {[]string{"get", "pods"}, "admin.kubeconfig"},
		"that name as a value": {[]string{"-n", "config", "get", "pods"}, "admin.kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", "")
			if _, _, err := kubectlKubeconfig(&cobra.Command{}, c.args); err != nil {
				t.Fatal(err)
			}
			if got := os.Getenv("KUBECONFIG"); strings.TrimPrefix(filepath.Base(got), ".") != c.want {
				t.Errorf("kubectl gets %q, want %q", got, c.want)
			}
		})
	}
	t.Setenv("KUBECONFIG", "")
	const accepted = "a named server without a kubeconfig is accepted: kubectl would edit another file than that of the server"
	if _, _, err := kubectlKubeconfig(&cobra.Command{}, []string{"--data-dir", dataDir, "config", "view"}); err == nil {
		t.Error(accepted)
	}
	t.Setenv("KUBE_HYPER_MINI_DATA_DIR", dataDir)
	if _, _, err := kubectlKubeconfig(&cobra.Command{}, []string{"config", "view"}); err == nil {
		t.Error(accepted)
	}
	if _, err := os.Stat(dataDir); !os.IsNotExist(err) {
		t.Errorf("the data directory was made (%v)", err)
	}
}

// TestHistoryUsesTheNamedServer: KUBECONFIG is not for who has named a server that is not there.
func TestHistoryUsesTheNamedServer(t *testing.T) {
	noServerHere(t)
	other := filepath.Join(t.TempDir(), "other")
	t.Setenv("KUBECONFIG", other)
	text := "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], " +
		"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]}"
	put(t, other, text)
	for dir, want := range map[string]string{"": "KUBECONFIG names it", t.TempDir(): "start the server first"} {
		t.Setenv("KUBE_HYPER_MINI_DATA_DIR", dir)
		_, errs, code := runCLI(t, "history", "get", "configmap", "x", "--from", t.TempDir())
		if code != ExitNotReady || !strings.Contains(errs, want) {
			t.Errorf("with the variable %q: exit code %d, want %q:\n%s", dir, code, want, errs)
		}
	}
}

// TestKubeconfigsWithoutAServer: kubectl would connect to localhost:8080.
func TestKubeconfigsWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // of a test that runs in a cluster
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		put(t, path, content)
		return path
	}
	none, empty := filepath.Join(dir, "none"), write("empty", "")
	server := write("server", "apiVersion: v1\nkind: Config\nclusters: [{name: mini, cluster: {server: https://127.0.0.1:1}}]\n")
	for name, c := range map[string]struct {
		kubeconfig string
		args       []string
		want       string // empty: kubectl goes on
	}{
		"no file":               {none, []string{"get", "pods"}, "no server in KUBECONFIG=" + none},
		"an empty file":         {empty, []string{"get", "pods"}, "no server in KUBECONFIG=" + empty},
		"an empty --kubeconfig": {server, []string{"get", "pods", "--kubeconfig", empty}, "no server in --kubeconfig " + empty},
		"a server":              {none + string(filepath.ListSeparator) + server, []string{"get", "pods"}, ""},
		"no --kubeconfig":       {server, []string{"get", "pods", "--kubeconfig", none}, ""},
		"a broken file":         {write("broken", "{"), []string{"get", "pods"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", c.kubeconfig)
			if err := noServer(c.args); err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
