package library

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// module is the directory of the programs.
func module(t *testing.T) string {
	return filepath.Join(harness.Root(t), "config", "examples", "library")
}

// program is a running program.
type program struct {
	t          *testing.T
	kubectlBin string
	kubeconfig string
	process    *harness.Process
}

// binaries builds the programs, which takes go less than one after the other, and returns
// their directory.
func binaries(t *testing.T, packages string) string {
	t.Helper()
	dir := filepath.Join(harness.Root(t), ".bin", "examples")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "go", "build", "-ldflags", "-s -w", "-o", dir, packages)
	return dir
}

// run runs a program in the module of the examples, which must succeed.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = module(t), append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
	}
}

// start runs a program with a configuration file until the test ends.
func start(t *testing.T, binaries, name, config string, args ...string) *program {
	t.Helper()
	dir := t.TempDir()
	file := harness.ConfigFile(t, fmt.Sprintf("dataDir: %q\nserving: {port: 0}\n%s", filepath.Join(dir, "data"), config))
	p := &program{t: t, kubectlBin: harness.KubectlBinary(t), kubeconfig: filepath.Join(dir, "data", "admin.kubeconfig")}
	cmd := exec.Command(filepath.Join(binaries, name), append([]string{file}, args...)...)
	cmd.Env = append(os.Environ(), "TOKEN=letmein")
	p.process = harness.StartProcess(t, cmd)
	t.Cleanup(func() { p.process.Stop(syscall.SIGTERM) }) // a program without a handler ends by the signal
	harness.Eventually(t, "the server of "+name+" is ready", func() error {
		_, err := p.try("", "get", "--raw", "/readyz")
		return err
	})
	return p
}

// try runs kubectl as the administrator.
func (p *program) try(stdin string, args ...string) (string, error) {
	cmd := exec.Command(p.kubectlBin, append([]string{"--kubeconfig", p.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, output)
	}
	return string(output), err
}

// kubectl is try that must succeed and print all of want.
func (p *program) kubectl(want []string, stdin string, args ...string) {
	p.t.Helper()
	output, err := p.try(stdin, args...)
	if err != nil {
		p.t.Errorf("kubectl %s: %v", strings.Join(args, " "), err)
		return
	}
	for _, text := range want {
		if !strings.Contains(output, text) {
			p.t.Errorf("kubectl %s printed\n%s\nwithout %q", strings.Join(args, " "), output, text)
		}
	}
}

// refused is kubectl that must fail with the text.
func (p *program) refused(want, stdin string, args ...string) {
	p.t.Helper()
	if output, err := p.try(stdin, args...); err == nil || !strings.Contains(err.Error(), want) {
		p.t.Errorf("kubectl %s: %v\n%s\nwant an error with %q", strings.Join(args, " "), err, output, want)
	}
}

// TestPrograms: each program serves what its first line says.
func TestPrograms(t *testing.T) {
	packages := "./..."
	if testing.Short() {
		packages = "./gotype" // the first
	}
	binaries := binaries(t, packages)
	t.Run("gotype", func(t *testing.T) {
		t.Parallel()
		p := start(t, binaries, "gotype", "")
		const boat = "{apiVersion: sea.example.com/v1, kind: Boat, metadata: {name: one}, spec: {length: %d}}"
		p.refused("must be positive", fmt.Sprintf(boat, 0), "apply", "-f", "-")
		p.kubectl([]string{"serverside-applied"}, fmt.Sprintf(boat, 7), "apply", "--server-side", "-f", "-")
		p.kubectl([]string{"length", "<integer>", "in meters"}, "", "explain", "boats.spec")
		p.kubectl([]string{`"afloat":true`}, "{}", "create", "--raw", "/apis/sea.example.com/v1/namespaces/default/boats/one/launch", "-f", "-")
		p.kubectl([]string{"LENGTH", "AFLOAT", "AGE", "true"}, "", "get", "bo", "one")
		p.refused("no", "", "auth", "can-i", "get", "boats", "--as", "jane")
		p.kubectl([]string{"deleted"}, "", "delete", "boat", "one")
	})
	if testing.Short() {
		return
	}
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		p := start(t, binaries, "whole", "")
		p.kubectl([]string{"created"}, "", "create", "namespace", "team")
		p.kubectl([]string{"deleted"}, "", "delete", "namespace", "team")
	})
	t.Run("crds", func(t *testing.T) {
		t.Parallel()
		p := start(t, binaries, "crds", "")
		const widget = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: %s, namespace: default}, spec: {size: 3}}"
		p.kubectl([]string{"created"}, fmt.Sprintf(widget, "one"), "create", "-f", "-")
		p.kubectl(nil, "", "wait", "--for=jsonpath={.metadata.labels.seen}=yes", "widget/one", "--timeout=2m")
		p.refused("10 letters at most", fmt.Sprintf(widget, "much-too-long"), "create", "-f", "-")
	})
	t.Run("virtual", func(t *testing.T) {
		t.Parallel()
		p := start(t, binaries, "virtual", "")
		p.kubectl([]string{"CONFIG MAPS", "default", "kube-system"}, "", "get", "summaries")
		p.refused("the server does not allow this method", "", "delete", "summary", "default")
	})
	t.Run("users", func(t *testing.T) {
		t.Parallel()
		p := start(t, binaries, "users", "")
		server, err := p.try("", "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
		if err != nil {
			t.Fatal(err)
		}
		p.kubeconfig = os.DevNull // without the administrator's certificate
		p.kubectl([]string{"jane", "developers"}, "", "--server", server, "--insecure-skip-tls-verify", "--token", "letmein", "auth", "whoami")
		if !strings.Contains(p.process.Log(), "GET /readyz") {
			t.Error("the middleware has logged no request")
		}
	})
	t.Run("kine", func(t *testing.T) {
		t.Parallel()
		kine := harness.Build(t, filepath.Join(harness.Root(t), "e2e", "kine"), ".", "kine")
		address := harness.FreeAddress(t)
		database := filepath.Join(t.TempDir(), "kine.db")
		p := start(t, binaries, "kine", "etcd: {external: {endpoints: [\"http://"+address+"\"]}}\n", kine, "-listen", address, "-database", database)
		p.kubectl([]string{"created"}, "", "create", "configmap", "one")
		if info, err := os.Stat(database); err != nil || info.Size() == 0 {
			t.Errorf("the database of kine: %v, %v", info, err)
		}
	})
}

// TestTests: twenty tests with a control plane each pass at once.
func TestTests(t *testing.T) {
	run(t, "go", "test", "-count=1", "-vet=off", "./tests")
}
