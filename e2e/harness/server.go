package harness

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Patience is how long the tests wait for what must happen. It says nothing
// about how long it takes: a loaded machine must not fail a test.
const Patience = 2 * time.Minute

// ReadyLine is in the log of each command that has become ready. The word alone is in
// other lines too, as in gRPC's "waiting for connections to become ready".
const ReadyLine = "INFO  ready"

// Server is a process of the real binary, used by one test.
type Server struct {
	// Dir is the data directory, Kubeconfig the administrator's file in it.
	Dir, Kubeconfig string

	t testing.TB
	*process
}

// process is the part of a Server that the tests of a shared server have in common.
type process struct {
	cmd    *exec.Cmd
	log    *lockedBuffer
	exited chan struct{}
	err    error
	failed atomic.Int64 // commands of kubectl
}

// Options configure a server.
type Options struct {
	// Dir is the data directory; a new one when it is empty.
	Dir string
	// Command is the command to run; empty is "server".
	Command string
	// Args follow `COMMAND --data-dir DIR --port 0` and override it.
	Args []string
	// Env is added to the environment.
	Env []string
	// Wrap is a program with arguments that execs what follows them, as
	// sh -c 'ulimit -n 99; exec "$@"' sh.
	Wrap []string
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
	return LaunchWith(t, Options{Dir: dir, Args: args})
}

// LaunchWith is Launch with all options.
func LaunchWith(t testing.TB, options Options) *Server {
	t.Helper()
	if options.Dir == "" {
		options.Dir = filepath.Join(t.TempDir(), "data")
	}
	s := launch(t, options)
	t.Cleanup(func() {
		if s.Running() {
			_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may end by itself just now
			s.Wait()
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.Log())
		}
	})
	return s
}

// launch starts the process and leaves its end to the caller.
func launch(t testing.TB, options Options) *Server {
	t.Helper()
	p := &process{log: &lockedBuffer{}, exited: make(chan struct{})}
	line := append(slices.Clone(options.Wrap), Binary(t), cmp.Or(options.Command, "server"), "--data-dir", options.Dir)
	if options.Command != "etcd" && options.Command != "controllers" { // which do not serve the API
		line = append(line, "--port", "0")
	}
	line = append(line, options.Args...)
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Env = append(os.Environ(), options.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return &Server{Dir: options.Dir, Kubeconfig: filepath.Join(options.Dir, "admin.kubeconfig"), t: t, process: p}
}

// For returns the same server for a subtest, which fails when its use of the server
// fails.
func (s *Server) For(t testing.TB) *Server {
	bound := *s
	bound.t = t
	return &bound
}

// WaitReady waits for the ready line, and fails the test if the process ends
// before.
func (s *Server) WaitReady() {
	s.t.Helper()
	s.WaitLog("kubectl --kubeconfig")
}

// WaitLog waits until the process has written text, and fails the test if it
// ends before.
func (s *Server) WaitLog(text string) {
	s.t.Helper()
	Eventually(s.t, "the server writes "+text, func() error {
		if strings.Contains(s.Log(), text) {
			return nil
		}
		if !s.Running() && !strings.Contains(s.Log(), text) {
			s.t.Fatalf("the server ended before it wrote %q: %v\n%s", text, s.err, s.Log())
		}
		return errors.New("no such line yet")
	})
}

// Running reports whether the process has not ended yet.
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

// Stop signals the process to stop, waits, and returns its exit code.
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

// ReadStatus decodes what `status -o json` prints, which it reads from the server itself.
func (s *Server) ReadStatus(into any) error {
	s.t.Helper()
	text, err := s.Client().Discovery().RESTClient().Get().AbsPath("/kube-hyper-mini/status").DoRaw(s.t.Context())
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return err
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

// WhoAmI returns the user of a client's configuration, as the server sees it.
func WhoAmI(t testing.TB, config *rest.Config) authenticationv1.UserInfo {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("ask who I am: %v", err)
	}
	return review.Status.UserInfo
}
