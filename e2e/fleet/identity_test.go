package fleet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// publishesOne waits until the server has published its client CA, and fails if there are
// others.
func publishesOne(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Eventually(t, "one client CA is published", func() error {
		found, err := s.Client().CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n := strings.Count(found.Data["client-ca-file"], "BEGIN CERTIFICATE"); n != 1 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

// TestNewIdentityOnAUsedEtcd: a server that would make authorities of its own does not
// join those of an etcd, nor follow them, unless it is told to. A copy of the keys is the remedy,
// in the directory that was refused.
func TestNewIdentityOnAUsedEtcd(t *testing.T) {
	t.Parallel()
	urls := endpoints(cluster(t, 1))
	first := server(t, urls, "")
	config, dir := onEtcd(t, urls, ""), filepath.Join(t.TempDir(), "data")
	refused := func() {
		t.Helper()
		harness.Contains(t, harness.Runs(t, harness.ExitFailure, "server", "--port", "0", "--data-dir", dir, "--config", config),
			urls[0], "(etcd.external.prefix /registry)", "the directories pki and encryption of their data directory into "+dir, "--new-identity")
		if _, err := os.Stat(filepath.Join(dir, "pki")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the refused server has made authorities: %v", err)
		}
	}
	refused()
	publishesOne(t, first)
	harness.Runs(t, harness.ExitOK, "certs", "rotate", "client", "--overlap", "1h", "--data-dir", first.Dir, "--config", config)
	first.Stop()
	refused()

	copyIdentity(t, first.Dir, dir)
	first = harness.StartIn(t, first.Dir, "--config", config)
	harness.StartIn(t, dir, "--config", config).Stop()
	first.Stop()

	meant := harness.StartIn(t, filepath.Join(t.TempDir(), "data"), "--config", config, "--new-identity")
	harness.Contains(t, meant.Log(), "refuses the kubeconfigs and tokens of the others")
}

// TestSimultaneousFirstStarts: of two new servers on a new etcd one makes the authorities.
func TestSimultaneousFirstStarts(t *testing.T) {
	t.Parallel()
	config := onEtcd(t, endpoints(cluster(t, 1)), "")
	one, other := harness.Launch(t, "", "--config", config), harness.Launch(t, "", "--config", config)
	harness.Eventually(t, "one of them ends", func() error {
		if one.Running() && other.Running() {
			return errors.New("both are running")
		}
		return nil
	})
	if one.Running() {
		one, other = other, one
	}
	if code := one.Wait(); code != harness.ExitFailure {
		t.Errorf("it ended with exit code %d", code)
	}
	harness.Contains(t, one.Log(), "the directories pki and encryption")
	other.WaitReady()
	publishesOne(t, other)
}

// TestEnvtestOnAUsedEtcd: envtest's kube-apiserver starts on an etcd that another one has
// used, as kube-apiserver does.
func TestEnvtestOnAUsedEtcd(t *testing.T) {
	t.Parallel()
	member := cluster(t, 1)[0]
	member.waitHealthy()
	assets := filepath.Join(t.TempDir(), "assets")
	harness.Runs(t, harness.ExitOK, "envtest", assets)
	for range 2 {
		certificates := t.TempDir()
		kubeconfig := filepath.Join(certificates, "kube-hyper-mini", "admin.kubeconfig")
		server := harness.StartProcess(t, exec.Command(filepath.Join(assets, "kube-apiserver"), "--etcd-servers="+member.client, "--cert-dir="+certificates, "--secure-port=0"))
		harness.Eventually(t, "it is ready", func() error {
			_, err := harness.Run(t, "", harness.KubectlBinary(t), "--kubeconfig", kubeconfig, "get", "--raw", "/readyz")
			return err
		})
		if code := server.Stop(syscall.SIGTERM); code != 0 {
			t.Errorf("it ended with exit code %d", code)
		}
	}
}
