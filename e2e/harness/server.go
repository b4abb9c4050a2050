package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Patience is how long the tests wait for what must happen. It says nothing
// about how long it takes: a loaded machine must not fail a test.
const Patience = 2 * time.Minute

// Server is a process of the real binary.
type Server struct {
	// Dir is the data directory, Kubeconfig the administrator's file in it.
	Dir, Kubeconfig string

	t      testing.TB
	cmd    *exec.Cmd
	log    *lockedBuffer
	exited chan struct{}
	err    error
}

// Start runs `server` on a new data directory with further arguments, waits
// until it is ready, and stops it when the test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartIn(t, filepath.Join(t.TempDir(), "data"), args...)
}

// StartIn is Start on the given data directory.
func StartIn(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	s := Launch(t, dir, args...)
	s.WaitReady()
	return s
}

// Launch runs `server` and does not wait until it is ready.
func Launch(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	s := &Server{Dir: dir, Kubeconfig: filepath.Join(dir, "admin.kubeconfig"), t: t, log: &lockedBuffer{}, exited: make(chan struct{})}
	s.cmd = exec.Command(Binary(t), append([]string{"server", "--data-dir", dir, "--port", "0"}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(func() {
		if s.Running() {
			s.Stop()
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.Log())
		}
	})
	return s
}

// WaitReady waits for the ready line, and fails the test if the process ends
// before.
func (s *Server) WaitReady() {
	s.t.Helper()
	Eventually(s.t, "the server is ready", func() error {
		if !s.Running() {
			s.t.Fatalf("the server ended before it was ready: %v\n%s", s.err, s.Log())
		}
		if !strings.Contains(s.Log(), "kubectl --kubeconfig") {
			return errors.New("no ready line yet")
		}
		return nil
	})
}

// Running says whether the process has not ended yet.
func (s *Server) Running() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// PID of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Log is what the process has written so far.
func (s *Server) Log() string { return s.log.String() }

// Signal sends a signal to the process.
func (s *Server) Signal(signal os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatalf("signal the server: %v", err)
	}
}

// Stop asks the process to end, waits, and returns its exit code.
func (s *Server) Stop() int {
	s.t.Helper()
	s.Signal(syscall.SIGTERM)
	return s.Wait()
}

// Kill ends the process without a warning and waits.
func (s *Server) Kill() {
	s.t.Helper()
	s.Signal(syscall.SIGKILL)
	s.Wait()
}

// Wait waits until the process has ended and returns its exit code.
func (s *Server) Wait() int {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(Patience):
		s.t.Errorf("the server did not end; its log:\n%s", s.Log())
		_ = s.cmd.Process.Kill() // the test has failed already
		<-s.exited
	}
	return s.cmd.ProcessState.ExitCode()
}

// RESTConfig is the administrator's, without a client-side rate limit.
func (s *Server) RESTConfig() *rest.Config {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		s.t.Fatalf("read the kubeconfig: %v", err)
	}
	config.QPS = -1
	return config
}

// Client is a clientset of the administrator.
func (s *Server) Client() *kubernetes.Clientset {
	s.t.Helper()
	client, err := kubernetes.NewForConfig(s.RESTConfig())
	if err != nil {
		s.t.Fatalf("make a client: %v", err)
	}
	return client
}

// Dynamic is a dynamic client of the administrator.
func (s *Server) Dynamic() *dynamic.DynamicClient {
	s.t.Helper()
	client, err := dynamic.NewForConfig(s.RESTConfig())
	if err != nil {
		s.t.Fatalf("make a dynamic client: %v", err)
	}
	return client
}

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

// TryKubectl runs kubectl and returns what it printed, errors included.
func (s *Server) TryKubectl(stdin string, args ...string) (string, error) {
	s.t.Helper()
	return Run(s.t, stdin, KubectlBinary(s.t), append([]string{"--kubeconfig", s.Kubeconfig}, args...)...)
}

// Run runs a program and returns its output and errors together.
func Run(t testing.TB, stdin, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	// kubectl keeps caches in the home directory.
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// CLI runs the product with arguments and returns its output and exit code.
func CLI(t testing.TB, args ...string) (string, int) {
	t.Helper()
	out, err := Run(t, "", Binary(t), args...)
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
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("waiting until %s: %v", what, err)
		case <-ticker.C:
		}
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
