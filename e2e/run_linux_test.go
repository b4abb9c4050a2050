package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// runMark is in the environment of each process of one run.
const runMark = "KHM_RUN_TEST"

// runTest is a temporary directory for runs and a mark of their processes.
type runTest struct {
	t       *testing.T
	tmp     string // TMPDIR of the runs
	scratch string // for files of the test
	mark    string
}

func newRunTest(t *testing.T) *runTest {
	t.Helper()
	t.Parallel()
	r := &runTest{t, t.TempDir(), t.TempDir(), ""}
	r.mark = runMark + "=" + r.tmp
	return r
}

// command is a `run` that has not been started.
func (r *runTest) command(args ...string) *exec.Cmd {
	r.t.Helper()
	return r.program(append([]string{"run"}, args...)...)
}

// program is a command of the product that has not been started.
func (r *runTest) program(args ...string) *exec.Cmd {
	r.t.Helper()
	cmd := exec.Command(harness.Binary(r.t), args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp, "SCRATCH="+r.scratch, "KUBECTL="+harness.KubectlBinary(r.t), "HOME="+r.t.TempDir(), r.mark)
	return cmd
}

// run runs it to its end, and returns its outputs and exit code.
func (r *runTest) run(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	return r.finish(r.command(args...))
}

// finish runs a command to its end, and returns its outputs and exit code.
func (r *runTest) finish(cmd *exec.Cmd) (stdout, stderr string, code int) {
	r.t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// started is a `run` whose command writes the line "started PID" when it has.
func (r *runTest) started(args ...string) (cmd *exec.Cmd, lines *bufio.Scanner, first string) {
	r.t.Helper()
	cmd = r.command(args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = cmd.Process.Kill() }) // of a test that has failed
	lines = bufio.NewScanner(out)
	if !lines.Scan() {
		r.t.Fatalf("it wrote nothing: %v", lines.Err())
	}
	return cmd, lines, lines.Text()
}

// processes are those with the mark.
func (r *runTest) processes() (list []string) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, file := range files {
		environment, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(environment), "\x00"), r.mark) {
			continue // it has ended, or belongs to another user
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		list = append(list, filepath.Base(filepath.Dir(file))+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return list
}

// listens reports whether the server accepts connections. One that has its port by now, of
// another test, has another authority.
func (s runServer) listens() bool {
	connection, err := tls.DialWithDialer(&net.Dialer{Timeout: harness.Patience}, "tcp", s.address, s.tls)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}

// left returns an error if processes or files of the runs are left.
func (r *runTest) left() error {
	if list := r.processes(); len(list) > 0 {
		return fmt.Errorf("processes are left: %q", list)
	}
	entries, err := os.ReadDir(r.tmp)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("files are left in the temporary directory: %v", entries)
	}
	return nil
}

// runServer is a server as a kubeconfig names it.
type runServer struct {
	address string
	tls     *tls.Config
}

// server is the one in a kubeconfig.
func (r *runTest) server(kubeconfig string) runServer {
	r.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		r.t.Fatal(err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		r.t.Fatal(err)
	}
	return runServer{strings.TrimPrefix(config.Host, "https://"), tlsConfig}
}

// saveKubeconfig is a shell command that keeps the kubeconfig for the test.
const saveKubeconfig = `cp "$KUBECONFIG" "$SCRATCH/kubeconfig"; `

// TestRunRemovesItsFiles: however a run ends, its exit code and message are
// right, and its processes, files and port are gone.
func TestRunRemovesItsFiles(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		shell string
		code  int
		says  string // as the error
		warns string
	}{
		"the command ends": {shell: `test "$USE_EXISTING_CLUSTER" = true && test -f "$KUBE_HYPER_MINI_DATA_DIR/version.json" &&
			"$KUBECTL" create configmap one && echo made && exit 7`, code: 7},
		"the command leaves processes behind": {shell: `sleep 1000 & sh -c 'trap "" TERM; sleep 1000' & exit 3`, args: []string{"--grace", "1s"}, code: 3},
		"the command is killed":               {shell: `kill -KILL $$`, code: 128 + 9},
		"SIGTERM is passed on":                {shell: `trap 'exit 9' TERM; kill -TERM $PPID; while :; do sleep 0.01; done`, code: 9},
		"an interrupt is passed on":           {shell: `trap 'exit 8' INT; kill -INT $PPID; while :; do sleep 0.01; done`, code: 8},
		"SIGUSR1 is passed on":                {shell: `trap 'exit 6' USR1; kill -USR1 $PPID; while :; do sleep 0.01; done`, code: 6},
		"the command does not mind SIGTERM":   {shell: `trap '' TERM; kill -TERM $PPID; while :; do sleep 0.01; done`, args: []string{"--grace", "300ms"}, code: 128 + 9, warns: "COMMAND did not end within 300ms of the signal, and was killed"},
		"the server cannot start":             {shell: `echo never`, args: []string{"--port", "1", "--config", "testdata/run/bind.yaml"}, code: 1, says: "start the server: "},
		"the configuration is wrong":          {shell: `echo never`, args: []string{"--port", "65536"}, code: 2, says: "--port: 65536 is not a port"},
		"the manifests cannot be read":        {shell: `echo never`, args: []string{"--manifests", "nowhere"}, code: 1, says: "--manifests: read manifests: "},
		"there are no CRDs":                   {shell: `echo never`, args: []string{"--crds", "../config/examples/widget.yaml"}, code: 1, says: "has no CustomResourceDefinitions"},
		"the log cannot be written":           {shell: `echo never`, args: []string{"--logs", "nowhere/log"}, code: 1, says: "--logs"},
		"the server refuses a CRD":            {shell: `echo never`, args: []string{"--crds", "testdata/run/refused.yaml"}, code: 1, says: `"refused.example.org" is invalid`},
		"a CRD has the kind of another":       {shell: `echo never`, args: []string{"--crds", "testdata/run/conflict.yaml"}, code: 1, says: `seconds.example.org is not established: KindConflict: "Thing" is already in use`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunTest(t)
			stdout, stderr, code := r.run(append(test.args, "--", "sh", "-c", saveKubeconfig+test.shell)...)
			if code != test.code || strings.Contains(stdout, "never") || !strings.Contains(stderr, test.says) || !strings.Contains(stderr, test.warns) {
				t.Errorf("it ended with %d, want %d, and %q:\n%s%s", code, test.code, test.says+test.warns, stdout, stderr)
			}
			if strings.Contains(stderr, "not established within") {
				t.Error("it waited for a CRD that the server has refused")
			}
			if err := r.left(); err != nil {
				t.Error(err)
			}
			if kubeconfig := filepath.Join(r.scratch, "kubeconfig"); test.says == "" && r.server(kubeconfig).listens() {
				t.Error("its port is still open")
			}
		})
	}
}

func TestRunOfAnUnknownCommand(t *testing.T) {
	r := newRunTest(t)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--", "no-such-command"}, 127, `COMMAND "no-such-command" cannot be run`},
		{[]string{"--", "./go.mod"}, 126, `COMMAND "./go.mod" cannot be run`},
		{[]string{"--", "/"}, 126, `COMMAND "/" cannot be run`},
		{[]string{"go", "test"}, 2, `COMMAND follows "--"`},
		{[]string{"--grace", "-1s", "--", "true"}, 2, "--grace -1s is negative"},
	} {
		stdout, stderr, code := r.run(test.args...)
		if code != test.code || !strings.Contains(stderr, test.says) || stdout != "" {
			t.Errorf("run %q ended with %d, want %d:\n%s%s", test.args, code, test.code, stdout, stderr)
		}
	}
	if err := r.left(); err != nil {
		t.Error(err)
	}
}

// TestRunIsKilled: the guard ends the command and removes the directory. The guard knows the
// command once the run goes on after it has started it: the command makes a request first.
func TestRunIsKilled(t *testing.T) {
	const request = `"$KUBECTL" get namespaces >"$SCRATCH/namespaces"; `
	for name, shell := range map[string]string{
		"while the command runs": saveKubeconfig + request + `trap '' TERM; sleep 1000 & echo started; while :; do sleep 1000; done`,
		"by the command":         saveKubeconfig + request + `echo started; kill -KILL $PPID; while :; do sleep 1000; done`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunTest(t)
			cmd, _, _ := r.started("--grace", "100ms", "--", "sh", "-c", shell)
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
			harness.Eventually(t, "nothing is left", r.left)
			if r.server(filepath.Join(r.scratch, "kubeconfig")).listens() {
				t.Error("its port is still open")
			}
		})
	}
}

// TestRunWithoutACommand: without a command, run prints the server's address and runs
// until it is stopped.
func TestRunWithoutACommand(t *testing.T) {
	// With a handler here, a run does not inherit that SIGHUP is ignored, as by nohup.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	for name, end := range map[string]func(*exec.Cmd) error{
		"interrupted": func(cmd *exec.Cmd) error { return cmd.Process.Signal(os.Interrupt) },
		"terminated":  func(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGTERM) },
		"hung up":     func(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunTest(t)
			cmd, _, line := r.started()
			kubeconfig, ok := strings.CutPrefix(line, "export KUBECONFIG=")
			if !ok {
				t.Fatalf("it wrote %q", line)
			}
			if out, err := harness.Run(t, "", harness.KubectlBinary(t), "--kubeconfig", kubeconfig, "create", "configmap", "one"); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			server := r.server(kubeconfig)
			if !server.listens() {
				t.Error("its port is closed")
			}
			if err := errors.Join(end(cmd), cmd.Wait(), r.left()); err != nil {
				t.Error(err)
			}
			if server.listens() {
				t.Error("its port is still open")
			}
		})
	}
}

// TestRunEndsWithItsOwner: a run ends when the program that holds its standard
// input ends without stopping it.
func TestRunEndsWithItsOwner(t *testing.T) {
	r := newRunTest(t)
	owner := exec.Command("sh", "-c", `sleep 1000 | "$BINARY" run --until-eof >"$SCRATCH/out" & echo $!; wait`)
	owner.Env = append(r.command().Env, "BINARY="+harness.Binary(t))
	owner.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the server is ready", func() error {
		if text, err := os.ReadFile(filepath.Join(r.scratch, "out")); err != nil || !strings.HasPrefix(string(text), "export") {
			return fmt.Errorf("%q, %w", text, err)
		}
		return nil
	})
	for _, process := range r.processes() {
		if pid, line, _ := strings.Cut(process, " "); strings.HasPrefix(line, "sleep") {
			number, err := strconv.Atoi(pid)
			if err == nil {
				err = syscall.Kill(number, syscall.SIGKILL)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	_ = owner.Wait()
	harness.Eventually(t, "nothing is left", r.left)
}

// TestRunKeepsItsDirectory: CRDs and manifests exist before the command starts, and --keep
// leaves the directory.
func TestRunKeepsItsDirectory(t *testing.T) {
	r := newRunTest(t)
	dir := filepath.Join(r.scratch, "manifests")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"10-namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n",
		"kustomization.yml": "kind: Widget\napiVersion: example.com/v1\nmetadata: {name: one, namespace: team}\nspec: {size: 3}\n",
	} {
		harness.WriteFile(t, filepath.Join(dir, name), text)
	}
	crds := filepath.Join(r.scratch, "crds")
	if err := os.Mkdir(crds, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"widget.yaml", "widgets.yaml"} { // the first is ignored
		text, err := os.ReadFile(filepath.Join("..", "config", "examples", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(crds, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const look = `"$KUBECTL" get widgets -n team one -o jsonpath={.spec.size}`
	stdout, stderr, code := r.run("--keep", "--logs", filepath.Join(r.scratch, "log"), "--crds", crds, "--manifests", dir, "--", "sh", "-c", look)
	kept, _, found := strings.Cut(strings.TrimPrefix(stderr, "kept "), ":")
	if stdout != "3" || code != 0 || !found {
		t.Fatalf("%d: %s%s", code, stdout, stderr)
	}
	if text, err := os.ReadFile(filepath.Join(r.scratch, "log")); err != nil || !strings.Contains(string(text), harness.ReadyLine) {
		t.Errorf("the log: %v\n%s", err, text)
	}
	if err := os.RemoveAll(kept); err != nil {
		t.Error(err)
	}
	if err := r.left(); err != nil {
		t.Error(err)
	}
}
