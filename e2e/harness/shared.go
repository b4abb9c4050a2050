package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Shared is a server that the tests of a package share, for tests that
// neither stop it nor change what others see. It starts when the first test
// requests it.
type Shared struct {
	once   sync.Once
	server *Server
	root   string
}

// Server returns the server for the use of one test.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	s.once.Do(func() {
		root, err := os.MkdirTemp("", "kube-hyper-mini-e2e-")
		if err != nil {
			t.Fatalf("make a directory for the shared server: %v", err)
		}
		s.root = root
		s.server = launch(t, Options{Dir: filepath.Join(root, "data")})
		s.server.WaitReady()
	})
	if s.server == nil {
		t.Fatal("the shared server did not start; see the test that asked for it first")
	}
	if !s.server.Running() {
		t.Fatalf("the shared server has ended: %v\n%s", s.server.err, s.server.Log())
	}
	return s.server.For(t)
}

// Run runs the tests of a package, stops the server and removes its data. It returns the exit
// code for TestMain, which is not 0 if that fails.
func (s *Shared) Run(m *testing.M) int {
	code := m.Run()
	if err := s.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

func (s *Shared) close() error {
	if s.root == "" {
		return nil
	}
	return errors.Join(s.stop(), os.RemoveAll(s.root))
}

func (s *Shared) stop() error {
	if s.server == nil || !s.server.Running() {
		return nil
	}
	if err := s.server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the shared server: %w", err)
	}
	select {
	case <-s.server.exited:
	case <-time.After(Patience):
		return errors.Join(fmt.Errorf("the shared server did not end:\n%s", s.server.Log()), s.server.cmd.Process.Kill())
	}
	if code := s.server.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the shared server ended with exit code %d:\n%s", code, s.server.Log())
	}
	return nil
}
