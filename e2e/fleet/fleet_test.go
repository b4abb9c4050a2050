package fleet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// etcd runs a real etcd for the test and returns its client URL.
func etcd(t *testing.T) string {
	t.Helper()
	binary := harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "go.etcd.io/etcd/server/v3", "etcd")
	client, peer := freeURL(t), freeURL(t)
	log, err := os.Create(filepath.Join(t.TempDir(), "etcd.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--data-dir", t.TempDir(), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()                          // killed is what it is
		_ = log.Close()
	})
	return client
}

func freeURL(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // the port is free again
	return "http://" + listener.Addr().String()
}

// server starts a server on the etcd with the identity of another one's
// directory, or with its own.
func server(t *testing.T, url, identityOf string) *harness.Server {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if identityOf != "" {
		for _, name := range []string{"pki", "encryption"} {
			if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(identityOf, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\netcd: {external: {endpoints: [%q]}}\n", url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return harness.StartIn(t, dir, "--config", file)
}

func createNamespace(t *testing.T, s *harness.Server, name string) {
	t.Helper()
	_, err := s.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// populated waits for what the controllers put into a new namespace.
func populated(t *testing.T, s *harness.Server, name string) {
	t.Helper()
	harness.Eventually(t, "the controllers have seen namespace "+name, func() error {
		_, err := s.Client().CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

func TestControllersMoveToAnotherServer(t *testing.T) {
	url := etcd(t)
	first := server(t, url, "")
	second := server(t, url, first.Dir)

	createNamespace(t, first, "from-first")
	populated(t, second, "from-first")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"key": "value"}}
	if _, err := first.Client().CoreV1().Secrets("from-first").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if out := second.Kubectl("", "get", "secret", "s", "-n", "from-first", "-o", "jsonpath={.data.key}"); out != "dmFsdWU=" {
		t.Errorf("the second server reads the first one's secret as %q", out)
	}

	leader, other := first, second
	if !strings.Contains(first.Log(), "runs the controllers now") {
		leader, other = second, first
	}
	if strings.Contains(other.Log(), "runs the controllers now") {
		t.Error("the controllers run twice")
	}
	leader.Kill()
	createNamespace(t, other, "after-the-loss")
	populated(t, other, "after-the-loss")

	if err := other.Client().CoreV1().Namespaces().Delete(t.Context(), "from-first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the namespace is gone", func() error {
		_, err := other.Client().CoreV1().Namespaces().Get(t.Context(), "from-first", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
	if code := other.Stop(); code != 0 {
		t.Errorf("the remaining server ended with exit code %d", code)
	}
}

func TestAStartWithoutEtcdCanBeStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\netcd: {external: {endpoints: [%q]}}\n", freeURL(t))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := harness.Launch(t, filepath.Join(t.TempDir(), "data"), "--config", file)
	s.WaitLog("the cluster does not answer")
	if code := s.Stop(); code != 0 {
		t.Errorf("it ended with exit code %d", code)
	}
}
