package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestBadCommandLines: each wrong command line ends with exit code 2 and one line that
// says what would be right. None prints or writes a key.
func TestBadCommandLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "")
	dir := t.TempDir()
	put(t, filepath.Join(dir, "admin.kubeconfig"), "apiVersion: v1\nkind: Config\nusers: [{name: kube-hyper-mini, user: {token: very-secret}}]\n")
	missing := filepath.Join(t.TempDir(), "missing")
	withPlanes := filepath.Join(t.TempDir(), "planes.yaml")
	const planes = "{apiVersion: kube-hyper-mini.io/v1alpha1, kind: ServerConfiguration, planes: {enabled: true}}"
	put(t, withPlanes, planes)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve"}, `did you mean "server"?`},
		{[]string{"server", "--datadir", "x"}, `unknown flag: --datadir; did you mean "--data-dir"?`},
		{[]string{"server", "extra"}, "takes no arguments"},
		{[]string{"server", "--nonsense"}, `unknown flag: --nonsense; see "kube-hyper-mini server --help"`},
		{[]string{"server", "--port", "abc"}, `invalid argument "abc" for "--port" flag: `},
		{[]string{"server", "--port", "70000"}, "--port: 70000 is not a port"},
		{[]string{"server", "--verbosity", "99"}, "--verbosity: 99 is out of range"},
		{[]string{"status", "-x"}, `unknown shorthand flag: 'x' in -x; see "kube-hyper-mini status --help"`},
		{[]string{"status", "-o"}, `flag needs an argument: 'o' in -o; see "kube-hyper-mini status --help"`},
		{[]string{"server", "--data-dir"}, `flag needs an argument: --data-dir; see "kube-hyper-mini server --help"`},
		{[]string{"status", "--data-dir", ""}, `"--data-dir" flag: the directory is empty: name one, or leave the flag out`},
		{[]string{"certs", "list", "--data-dir="}, `"--data-dir" flag: the directory is empty`},
		{[]string{"kubectl", "--data-dir", "", "version"}, "--data-dir: the directory is empty"},
		{[]string{"status", "--config", ""}, `"--config" flag: the file name is empty: name a file, or leave the flag out`},
		{[]string{"server", "--config="}, `"--config" flag: the file name is empty`},
		{[]string{"run", "--config=", "--", "true"}, `"--config" flag: the file name is empty`},
		{[]string{"kubectl", "--config", "", "version"}, "--config: the file name is empty"},
		{[]string{"doctor", "--kubeconfig", ""}, `"--kubeconfig" flag: the file name is empty`},
		{[]string{"doctor", "--context", "a"}, "--context needs --kubeconfig"},
		{[]string{"console", "--kubeconfig", ""}, `"--kubeconfig" flag: the file name is empty`},
		{[]string{"kubeconfig", "create", "jane", "--kubeconfig", ""}, `"--kubeconfig" flag: the file name is empty`},
		{[]string{"history", "get", "x", "--kubeconfig", ""}, `"--kubeconfig" flag: the file name is empty`},
		{[]string{"status", "--plane", ""}, "it is empty: name a ControlPlane"},
		{[]string{"doctor", "--plane="}, "it is empty: name a ControlPlane"},
		{[]string{"certs", "rotate", "client", "--plane", ""}, "it is empty: name a ControlPlane"},
		{[]string{"certs", "rotate", "server", "--plane", "acme"}, `use "kube-hyper-mini certs rotate server" without --plane`},
		{[]string{"backup", "save", "--plane", ""}, "it is empty: name a ControlPlane"},
		{[]string{"undelete", "cm", "x", "--plane", ""}, "it is empty: name a ControlPlane"},
		{[]string{"kubeconfig", "--plane", ""}, "it is empty: name a ControlPlane"},
		{[]string{"kubectl", "--plane", "", "get", "ns"}, "it is empty: name a ControlPlane"},
		{[]string{"config", "validate", "-", "-"}, "standard input can be read once only"},
		{[]string{"server", "--new-identity=perhaps"}, `invalid argument "perhaps" for "--new-identity" flag: `},
		{[]string{"server", "--tls-san", "a b"}, `--tls-san: "a b" is neither a DNS name nor an IP address`},
		{[]string{"server", "--ephemeral", "--new-identity"}, "--new-identity and --ephemeral exclude each other"},
		{[]string{"run", "--tls-san", "a"}, "unknown flag: --tls-san"},
		{[]string{"kubeconfig", "--server", "mini.example.org"}, `--server: "mini.example.org" is not the URL of an API server; write https://host:port`},
		{[]string{"kubeconfig", "--server", ""}, `--server: "" is not the URL`},
		{[]string{"status", "--wait", "soon"}, `"--wait" flag: "soon" is not a duration; write a number with a unit`},
		{[]string{"etcd", "--port", "1"}, "unknown flag: --port"},
		{[]string{"controllers", "--port", "1"}, "unknown flag: --port"},
		{[]string{"config", "print", "--defaults", "--port", "1"}, "--defaults and --port exclude each other"},
		{[]string{"config", "print", "--defaults", "--effective"}, "--defaults and --effective exclude each other"},
		{[]string{"config", "print", "--effective=false"}, "leaves nothing to print; --defaults prints the defaults"},
		{[]string{"config", "print", "-o", "xml"}, "allowed: yaml, json"},
		{[]string{"config", "validate"}, "FILE"},
		{[]string{"kubeconfig", "create", "jane", "--kubeconfig", "x", "--data-dir", "y"}, "leave out --config and --data-dir"},
		{[]string{"kubeconfig", "--merge", "-o", "x"}, "--merge and --output exclude each other"},
		{[]string{"kubeconfig", "--use"}, "--use needs --merge"},
		{[]string{"kubeconfig", "--force"}, "--force needs --output"},
		{[]string{"kubeconfig", "-o", file}, "the file exists; --force replaces it"},
		{[]string{"kubeconfig", "-o", filepath.Join(missing, "x")}, "the directory " + missing + " does not exist: make it first"},
		{[]string{"kubeconfig", "create", "jane", "-o", filepath.Join(missing, "x")}, "the directory " + missing + " does not exist: make it first"},
		{[]string{"kubeconfig", "--data-dir", dir, "create", "jane", "-o", file}, "--force replaces it"},
		{[]string{"kubeconfig", "--data-dir", dir, "create", "jane", "--force"}, "--force needs --output"},
		{[]string{"kubeconfig", "--data-dir", dir, "create", "jane", "--role", "owner"}, `--role "owner" is not supported; allowed: view, edit, admin`},
		{[]string{"kubeconfig", "--data-dir", dir, "create", "jane", "--namespace", "Team A"}, `--namespace "Team A" is not the name of a namespace`},
		{[]string{"kubeconfig", "--data-dir", dir, "create", "jane", "--expires", "soon"}, `"soon" is not a duration; write a number with a unit`},
		{[]string{"backup", "list", "--data-dir=~/x"}, "write the whole path"}, // no shell has expanded it
		{[]string{"backup", "list", "--config=~/x"}, "write the whole path"},
		{[]string{"completion", "tcsh"}, `unknown command "tcsh" for "kube-hyper-mini completion"; allowed: bash, fish, powershell, zsh;`},
		{[]string{"kubeconfig", "merge", "--help"}, `unknown command "merge" for "kube-hyper-mini kubeconfig"; allowed: create;`},
		{[]string{"backup", "sav", "--help"}, `did you mean "save"?`},
		{[]string{"backup", "sav", "--data-dir", file}, `unknown command "sav" for "kube-hyper-mini backup"; did you mean "save"?`},
		{[]string{"certs", "lst", "-o"}, `unknown command "lst" for "kube-hyper-mini certs"; did you mean "list"?`},
		{[]string{"serve", "--data-dir=" + file}, `did you mean "server"?`},
		{[]string{"backup", "--nonsense", "save"}, "unknown flag: --nonsense"},
		{[]string{"status", "--data-dir", file}, "is a file"},
		{[]string{"backup", "list", "--data-dir", file}, "is a file"},
		{[]string{"doctor", "--data-dir", file}, "is a file"},
		{[]string{"status", "-o", "xml"}, "allowed: text, json, yaml"},
		{[]string{"status", "--kubeconfig", "x", "--data-dir", "y"}, "leave out --config and --data-dir"},
		{[]string{"server", "--profile", "all"}, "allowed: generic, kubernetes"},
		{[]string{"run", "--crds", "https://example.com/crds.yaml", "--", "true"}, "download it first"},
		{[]string{"run", "--config", withPlanes, "--", "true"}, "planes.enabled: needs the whole server: run `kube-hyper-mini server`, or unset it"},
	} {
		out, errs, code := runCLI(t, c.args...)
		if code != ExitUsage || !strings.Contains(errs, c.want) || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit code %d, want %q:\n%s%s", c.args, code, c.want, out, errs)
		}
	}
	if data, err := os.ReadFile(file); err != nil || len(data) > 0 {
		t.Errorf("the file is now %q, %v", data, err)
	}
}

// TestExternalURLErrors: the message names the variable.
func TestExternalURLErrors(t *testing.T) {
	t.Setenv("KUBE_HYPER_MINI_EXTERNAL_URL", "http://mini.example.org")
	for _, args := range [][]string{{"server"}, {"status"}, {"config", "print"}} {
		_, errs, code := runCLI(t, args...)
		if want := `environment variable KUBE_HYPER_MINI_EXTERNAL_URL: "http://mini.example.org" is not the URL of an API server`; code != ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d:\n%s", args, code, errs)
		}
	}
	t.Setenv("KUBE_HYPER_MINI_EXTERNAL_URL", "https://mini.example.org:32768")
	if _, errs, code := runCLI(t, "server", "--port", "0"); code != ExitUsage || !strings.Contains(errs, "serving.externalURL: needs a port that leads to this server") {
		t.Errorf("without a port: exit code %d:\n%s", code, errs)
	}
	if out, errs, code := runCLI(t, "config", "print"); code != ExitOK || !strings.Contains(out, "externalHost: mini.example.org\n") || !strings.Contains(out, "externalURL: https://mini.example.org:32768\n") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
}

func TestInformationCommands(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--version"}, "kube-hyper-mini version v"},
		{[]string{"server", "--help"}, "/var/lib/kube-hyper-mini for root"},
		{[]string{"kubeconfig", "--help"}, "--merge"},
		{[]string{"__complete", "status", "-o", ""}, "yaml"},
		{[]string{"__complete", "version", "--output", ""}, "yaml"},
		{[]string{"__complete", "certs", "rotate", ""}, "front-proxy"},
		{[]string{"__complete", "kubeconfig", "create", "--role", ""}, "view"},
		{[]string{"version", "-o", "yaml"}, "kubernetes: "},
		{[]string{}, "Available Commands"},
		{[]string{"completion", "zsh"}, "kube-hyper-mini"},
		{[]string{"config", "print", "--data-dir", "/nowhere", "--port", "8443"}, "dataDir: /nowhere\n"},
		{[]string{"config", "print", "--defaults"}, "# The directory for all data, keys and certificates."},
		{[]string{"config", "print", "--defaults", "--effective=false"}, "# The directory for all data, keys and certificates."},
		{[]string{"config", "print", "--defaults", "-o", "json"}, `"quotaBackend": "8Gi"`},
	} {
		out, errs, code := runCLI(t, c.args...)
		if code != ExitOK || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, want %q:\n%s%s", c.args, code, c.want, out, errs)
		}
	}
}

// TestStatusOfAStoppedServer is JSON and YAML too, for programs.
func TestStatusOfAStoppedServer(t *testing.T) {
	dir := t.TempDir()
	out, errs, code := runCLI(t, "status", "--data-dir", dir, "-o", "json")
	var status struct {
		Ready  *bool
		Reason string
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil || code != ExitNotReady {
		t.Fatalf("exit code %d, %v:\n%s%s", code, err, out, errs)
	}
	if status.Ready == nil || *status.Ready || !strings.Contains(status.Reason, "start the server first") {
		t.Errorf("it says %s", out)
	}
	if out, _, code := runCLI(t, "status", "--data-dir", dir, "-o", "yaml"); code != ExitNotReady || !strings.HasPrefix(out, "ready: false\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestValidateSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		put(t, path, text)
		return path
	}
	empty, comments := write("empty.yaml", ""), write("comments.yaml", "# nothing yet\n")
	wrong := write("wrong.yaml", "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\nserving: {port: 70000}\n")
	unknown := write("unknown.yaml", "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\nport: 1\n")
	if out, errs, code := runCLI(t, "config", "validate", empty, comments); code != ExitOK || strings.Count(out, " is valid\n") != 2 {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	out, errs, code := runCLI(t, "config", "validate", wrong, empty, unknown)
	if code != ExitUsage || !strings.Contains(errs, "wrong.yaml:3: serving.port") || !strings.Contains(errs, "unknown.yaml:3: port") || !strings.Contains(out, "empty.yaml is valid") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	for text, want := range map[string]int{config.Documented: ExitOK, "": ExitOK, "a: [\n": ExitUsage} {
		var stdout, stderr strings.Builder
		code := Run(t.Context(), []string{"config", "validate", "-"}, Streams{In: strings.NewReader(text), Out: &stdout, Err: &stderr})
		if code != want || code != ExitOK && !strings.Contains(stderr.String(), "standard input: ") {
			t.Errorf("standard input %.20q: exit code %d, want %d:\n%s%s", text, code, want, &stdout, &stderr)
		}
	}
}

// TestEachCommandHasAnExample: an example is the quickest help.
func TestEachCommandHasAnExample(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" {
			return // cobra's own
		}
		if !cmd.HasSubCommands() && !cmd.Hidden && cmd.Example == "" {
			t.Errorf("%s has none", cmd.CommandPath())
		}
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(newRoot(io.Discard))
}

// TestNoJournal: a mistyped name of a journal is an error, in each format.
func TestNoJournal(t *testing.T) {
	for _, output := range []string{"text", "json", "yaml"} {
		from := t.TempDir()
		if out, errs, code := runCLI(t, "backup", "list", "--from", from, "-o", output); code != ExitFailure || out != "" || !strings.Contains(errs, "no journal in "+from) {
			t.Errorf("%s: exit code %d:\n%s%s", output, code, out, errs)
		}
	}
}
