package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// exitInterrupted is the exit code after a second signal.
const exitInterrupted = 130

// TestStopWithOpenWatches: clients that watch do not keep the server.
func TestStopWithOpenWatches(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	var watches []watch.Interface
	for range 100 {
		w, err := s.Client().CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		watches = append(watches, w)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	for _, w := range watches {
		for event := range w.ResultChan() { // ends when the watch has
			if event.Type == watch.Error {
				t.Errorf("a watch has ended with %v", event.Object)
			}
		}
	}
	harness.Contains(t, s.Log(), "stopping", "stopped")
	if lines := harness.Errors(s.Log()); lines != "" {
		t.Errorf("the stop says errors:\n%s", lines)
	}
}

// TestSecondSignal: a second signal ends the process without waiting for a hanging request.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, "serving: {stopGrace: 1m}\n"))
	hang(t, s)
	s.Signal(syscall.SIGTERM)
	s.WaitLog("stopping")
	s.Signal(syscall.SIGINT)
	if code := s.Wait(); code != exitInterrupted {
		t.Errorf("the server ended with exit code %d, want %d:\n%s", code, exitInterrupted, s.Log())
	}
}

// hang begins a request whose body never comes.
func hang(t *testing.T, s *harness.Server) {
	t.Helper()
	config := s.RESTConfig()
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), tlsConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	_, err = fmt.Fprint(conn, "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\nExpect: 100-continue\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	// The server requests the body when the handler begins to read it.
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("the request is not in flight: %q, %v", line, err)
	}
}

// TestStopDuringTheStart: at several moments, each of which must leave a data
// directory that the next start can use.
func TestStopDuringTheStart(t *testing.T) {
	exists := func(path ...string) func(*testing.T, *harness.Server) bool {
		return func(_ *testing.T, s *harness.Server) bool {
			_, err := os.Stat(filepath.Join(append([]string{s.Dir}, path...)...))
			return err == nil
		}
	}
	for name, reached := range map[string]func(*testing.T, *harness.Server) bool{
		"the first line": func(_ *testing.T, s *harness.Server) bool { return s.Log() != "" },
		"the first key":  exists("pki", "server-ca.key"),
		"etcd's data":    exists("etcd", "member", "wal"),
		"the kubeconfig": exists("admin.kubeconfig"),
		"the first answer": func(t *testing.T, s *harness.Server) bool {
			_, code := harness.CLI(t, "status", "--data-dir", s.Dir)
			return code == harness.ExitOK || strings.Contains(s.Log(), harness.ReadyLine)
		},
		"the version stamp": exists("version.json"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.Launch(t, filepath.Join(t.TempDir(), "data"))
			harness.Eventually(t, "the start has come this far", func() error {
				if !reached(t, s) {
					return fmt.Errorf("not yet:\n%s", s.Log())
				}
				return nil
			})
			if code := s.Stop(); code != 0 {
				t.Errorf("the server ended with exit code %d:\n%s", code, s.Log())
			}
			if harness.Errors(s.Log()) != "" || strings.Contains(s.Log(), "panic") {
				t.Errorf("the server says:\n%s", s.Log())
			}
			again := harness.StartIn(t, s.Dir)
			again.Kubectl("", "get", "namespaces")
			leftovers, err := filepath.Glob(filepath.Join(s.Dir, "*", ".*.tmp-*"))
			if err != nil || len(leftovers) > 0 {
				t.Errorf("temporary files: %v %v", leftovers, err)
			}
		})
	}
}

// TestRestartsLeaveNoFiles: a life more is not a file more, in the data
// directory or where temporary files go.
func TestRestartsLeaveNoFiles(t *testing.T) {
	t.Parallel()
	temporary, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	live := func() []string {
		s := harness.LaunchWith(t, harness.Options{Dir: dir, Env: []string{"TMPDIR=" + temporary}})
		s.WaitReady()
		s.Kubectl("", "create", "namespace", unique("life"))
		if code := s.Stop(); code != harness.ExitOK {
			t.Errorf("the server ended with exit code %d", code)
		}
		return append(filesIn(t, dir), filesIn(t, temporary)...)
	}
	first := live()
	live()
	if third := live(); !slices.Equal(third, first) {
		t.Errorf("after one life there was\n%q\nand after three there is\n%q", first, third)
	}
	if left := filesIn(t, temporary); len(left) > 0 {
		t.Errorf("temporary files: %q", left)
	}
}

// filesIn lists all files below dir.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
