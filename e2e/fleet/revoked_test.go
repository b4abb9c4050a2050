package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// adminOf returns a copy of the administrator's kubeconfig of a server.
func adminOf(t *testing.T, s *harness.Server) string {
	t.Helper()
	data, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// askAs lists the namespaces of a server with a kubeconfig.
func askAs(t *testing.T, s *harness.Server, kubeconfig string) error {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags(s.RESTConfig().Host, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	return err
}

// awaitRefused waits until a server refuses a kubeconfig.
func awaitRefused(t *testing.T, s *harness.Server, kubeconfig string) {
	t.Helper()
	harness.Eventually(t, "the previous certificate of the administrator is refused", func() error {
		err := askAs(t, s, kubeconfig)
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return fmt.Errorf("the answer is: %w", err)
	})
}

// TestRevokeAdminOnSeveralServers: all servers of an etcd refuse what one of them has
// revoked, running or not at that time, and keep an administrator.
func TestRevokeAdminOnSeveralServers(t *testing.T) {
	t.Parallel()
	urls := endpoints(cluster(t, 1))
	first := server(t, urls, "")
	second := server(t, urls, first.Dir)
	third := identityOf(t, first.Dir)
	config := onEtcd(t, urls, "")
	previous := adminOf(t, first)
	if err := askAs(t, second, previous); err != nil {
		t.Fatal(err)
	}
	revoke := func() string {
		t.Helper()
		return harness.Runs(t, harness.ExitOK, "certs", "revoke-admin", "--data-dir", first.Dir, "--config", config)
	}
	harness.Contains(t, revoke(), "by all servers of the etcd")
	if err := askAs(t, first, previous); !apierrors.IsUnauthorized(err) {
		t.Errorf("the server that has revoked it answers: %v", err)
	}
	awaitRefused(t, second, previous)
	for _, s := range []*harness.Server{first, second} {
		harness.Eventually(t, "the new kubeconfig works", func() error { return askAs(t, s, s.Kubeconfig) })
	}
	late := harness.StartIn(t, third, "--config", config)
	if err := askAs(t, late, previous); !apierrors.IsUnauthorized(err) {
		t.Errorf("a server that starts later answers: %v", err)
	}
	if err := askAs(t, late, late.Kubeconfig); err != nil {
		t.Error(err)
	}

	previous = adminOf(t, first)
	if code := first.Stop(); code != harness.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	harness.Contains(t, revoke(), "start this server")
	if err := askAs(t, second, previous); err != nil {
		t.Fatalf("before the start of the server that has revoked it: %v", err)
	}
	first = harness.StartIn(t, first.Dir, "--config", config)
	awaitRefused(t, second, previous)
}
