package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Kubectl runs kubectl as the administrator, with stdin, and fails the test
// if it fails.
func (s *Server) Kubectl(stdin string, args ...string) string {
	s.t.Helper()
	out, err := s.TryKubectl(stdin, args...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// InPlane returns the arguments of kubectl for a control plane of the server.
func (s *Server) InPlane(name string, args ...string) []string {
	return append([]string{"--server", s.RESTConfig().Host + "/clusters/" + name}, args...)
}

// TryKubectl runs kubectl and returns what it printed, errors included.
func (s *Server) TryKubectl(stdin string, args ...string) (string, error) {
	s.t.Helper()
	// What kubectl knows of the types is kept for the next one until one fails, as for a type that has gone.
	cache := fmt.Sprintf("KUBECACHEDIR=%s.kubectl-%d-%d", s.Dir, s.PID(), s.failed.Load())
	out, err := RunWith(s.t, []string{cache}, stdin, KubectlBinary(s.t), append([]string{"--kubeconfig", s.Kubeconfig}, args...)...)
	if err != nil {
		s.failed.Add(1)
	}
	return out, err
}

// waitTimeout is shorter than Patience, after which a program is killed: it can still
// report what it has waited for.
const waitTimeout = Patience - 10*time.Second

// Await runs `kubectl wait --for=CONDITION` with the tests' patience, and fails
// the test if it fails.
func (s *Server) Await(condition string, args ...string) {
	s.t.Helper()
	s.Kubectl("", append([]string{"wait", "--for=" + condition, "--timeout=" + waitTimeout.String()}, args...)...)
}

// Status waits until the server is ready, and returns the output of `status` with
// further arguments. It fails the test if the server does not become ready.
func (s *Server) Status(args ...string) string {
	s.t.Helper()
	return Runs(s.t, ExitOK, append([]string{"status", "--data-dir", s.Dir, "--wait", waitTimeout.String()}, args...)...)
}

// Run runs a program and returns its output and errors together.
func Run(t testing.TB, stdin, program string, args ...string) (string, error) {
	t.Helper()
	return RunWith(t, nil, stdin, program, args...)
}

// RunWith is Run with additions to the environment.
func RunWith(t testing.TB, env []string, stdin, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	// kubectl keeps caches in the home directory.
	cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir()), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// CLI runs the product with arguments and returns its output and exit code.
func CLI(t testing.TB, args ...string) (string, int) {
	t.Helper()
	return CLIWith(t, nil, args...)
}

// CLIWith is CLI with additions to the environment. The note about the configuration of the
// running server is left out.
func CLIWith(t testing.TB, env []string, args ...string) (string, int) {
	t.Helper()
	out, err := RunWith(t, env, "", Binary(t), args...)
	if note, rest, found := strings.Cut(out, "\n"); found && strings.HasPrefix(note, "configuration: that of the server in ") {
		out = rest // on standard error, before the output
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out, 0
	case errors.As(err, &exit):
		return out, exit.ExitCode()
	}
	t.Fatalf("run %v: %v", args, err)
	return "", 0
}

// Eventually calls check until it returns nil, and fails the test when that
// takes longer than Patience.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	Within(t, Patience, what, check)
}

// Within is Eventually with another limit, for what takes longer on any machine. It checks
// less often the longer it takes: many checks run a program.
func Within(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		waited := time.Since(began)
		if waited >= limit {
			t.Fatalf("waiting until %s: %v", what, err)
		}
		time.Sleep(min(max(waited/8, 20*time.Millisecond), 500*time.Millisecond, limit-waited))
	}
}

// lockedBuffer is written by the process and read by the test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is what has been written so far.
func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
