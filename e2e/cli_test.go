package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// The exit codes are documented in the commands' help.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitNotReady = 3
)

// runs executes the program and fails the test on another exit code.
func runs(t *testing.T, code int, args ...string) string {
	t.Helper()
	out, got := harness.CLI(t, args...)
	if got != code {
		t.Fatalf("%v ended with exit code %d, want %d:\n%s", args, got, code, out)
	}
	return out
}

func TestCommandLineMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve"}, `did you mean "server"?`},
		{[]string{"server", "--datadir", "x"}, "unknown flag: --datadir"},
		{[]string{"server", "--port", "http"}, "--port"},
		{[]string{"server", "extra"}, "takes no arguments"},
		{[]string{"config", "validate"}, "FILE"},
		{[]string{"config", "print", "--defaults", "--effective"}, "effective"},
		{[]string{"status", "-o", "xml"}, "allowed: text, json"},
		{[]string{"version", "-o", "xml"}, "allowed: text, json"},
	} {
		out := runs(t, exitUsage, c.args...)
		wants(t, out, "error: ", c.want)
		if n := strings.Count(strings.TrimSpace(out), "\n"); n != 0 {
			t.Errorf("%v answers with %d lines, want one:\n%s", c.args, n+1, out)
		}
	}
	wants(t, runs(t, exitOK), "server", "status", "kubeconfig")
	wants(t, runs(t, exitOK, "server", "--help"), "--data-dir", "Exit codes")
}

func TestVersionCommand(t *testing.T) {
	t.Parallel()
	kubernetes := harness.KubernetesVersion(t)
	wants(t, runs(t, exitOK, "version"), "kube-hyper-mini ", "Kubernetes "+kubernetes, "etcd 3.")
	var versions map[string]string
	if err := json.Unmarshal([]byte(runs(t, exitOK, "version", "-o", "json")), &versions); err != nil {
		t.Fatal(err)
	}
	if versions["kubernetes"] != kubernetes || versions["server"] == "" || versions["etcd"] == "" || versions["go"] == "" {
		t.Errorf("versions: %v", versions)
	}
}

func TestCompletionCommand(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		wants(t, runs(t, exitOK, "completion", shell), "kube-hyper-mini")
	}
	wants(t, runs(t, exitOK, "__complete", "conf"), "config")
}

func TestConfigCommands(t *testing.T) {
	t.Parallel()
	defaults := runs(t, exitOK, "config", "print", "--defaults")
	file := filepath.Join(t.TempDir(), "defaults.yaml")
	if err := os.WriteFile(file, []byte(defaults), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, runs(t, exitOK, "config", "validate", file), "is valid")

	file = configFile(t, "serving: {port: 7443}\nlogging: {verbosity: 1}\n")
	dir := filepath.Join(t.TempDir(), "data")
	effective := runs(t, exitOK, "config", "print", "--effective", "--config", file, "--data-dir", dir, "--port", "8443")
	wants(t, effective, "port: 8443", "verbosity: 1", "dataDir: "+dir, "path: "+filepath.Join(dir, "admin.kubeconfig"))
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("printing the configuration has made the data directory: %v", err)
	}
	wants(t, runs(t, exitUsage, "config", "validate", filepath.Join(t.TempDir(), "missing.yaml")), "missing.yaml")
}

// TestDefaultDataDirectory: where the data goes without a word about it.
func TestDefaultDataDirectory(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for env, want := range map[string]string{
		"XDG_DATA_HOME=" + home: filepath.Join(home, "kube-hyper-mini"),
		"XDG_DATA_HOME=":        filepath.Join(home, ".local", "share", "kube-hyper-mini"),
	} {
		if os.Geteuid() == 0 {
			want = "/var/lib/kube-hyper-mini"
		}
		out, code := harness.CLIWith(t, []string{"HOME=" + home, env}, "config", "print", "--effective")
		if code != exitOK {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		wants(t, out, "dataDir: "+want+"\n")
	}
}

func TestStatusCommand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	wants(t, runs(t, exitNotReady, "status", "--data-dir", dir), "start the server first")

	s := harness.StartIn(t, dir)
	wants(t, runs(t, exitOK, "status", "--data-dir", dir), "ready", "since", "etcd", "controllers", "certificate", "quota 8GiB")
	var status struct {
		Ready        bool
		ReadySince   time.Time
		PID          int
		Server       string
		DataDir      string
		Components   []struct{ Name string }
		Controllers  []string
		Versions     map[string]string
		Database     struct{ SizeBytes, Revision int64 }
		Certificates map[string]time.Time
	}
	if err := json.Unmarshal([]byte(runs(t, exitOK, "status", "--data-dir", dir, "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if !status.Ready || status.ReadySince.IsZero() || status.PID != s.PID() || status.Server != s.RESTConfig().Host || status.DataDir != dir {
		t.Errorf("status: %+v", status)
	}
	if len(status.Components) != 4 || len(status.Controllers) < 12 || status.Database.SizeBytes == 0 || status.Database.Revision == 0 {
		t.Errorf("components %v, controllers %v, database %+v", status.Components, status.Controllers, status.Database)
	}
	for _, name := range []string{"server-ca", "client-ca", "front-proxy-ca", "apiserver", "admin"} {
		if !status.Certificates[name].After(time.Now()) {
			t.Errorf("the certificate %s ends at %v", name, status.Certificates[name])
		}
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	wants(t, runs(t, exitNotReady, "status", "--data-dir", dir), "does not answer", "is it running?")
}

// TestStatusWaits: for scripts that have just started the server.
func TestStatusWaits(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	harness.Launch(t, dir)
	wants(t, runs(t, exitOK, "status", "--data-dir", dir, "--wait", harness.Patience.String()), "ready")
}
