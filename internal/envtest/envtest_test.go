package envtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// freeAddress is an address that nothing listened on a moment ago. Its port is not one that
// the system gives to programs that ask for any.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000)))
		if err == nil {
			defer func() { _ = listener.Close() }()
			return listener.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// runEtcd runs etcd with the command line of envtest, and returns its URL.
func runEtcd(t *testing.T, dir string, more ...string) string {
	t.Helper()
	address := "http://" + freeAddress(t)
	etcd, err := NewEtcd(append([]string{"--advertise-client-urls=" + address, "--data-dir=" + dir, "--listen-client-urls=" + address,
		"--listen-peer-urls=http://127.0.0.1:1"}, more...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- etcd.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	awaitHealth(t, address)
	return address
}

// awaitHealth returns when etcd answers as envtest wants it to.
func awaitHealth(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		response, err := http.Get(address + "/health")
		if err == nil {
			_ = response.Body.Close() // nothing of it is read
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("etcd does not answer: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestBadCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"etcd --listen-client-urls=https://localhost:1":          "--listen-client-urls",
		"etcd --initial-cluster=a=b":                             "--initial-cluster",
		"etcd stray":                                             `"stray" is not a flag`,
		"kube-apiserver":                                         "--etcd-servers is missing",
		"kube-apiserver --etcd-server=http://localhost:1":        "unknown flag: --etcd-server; see --help",
		"kube-apiserver --etcd-servers=http://localhost:1":       "--cert-dir is missing",
		"kube-apiserver --kubelet-timeout=1s":                    "unknown flag: --kubelet-timeout",
		"kube-apiserver --secure-port=https":                     `--secure-port: "https" is not a number`,
		"kube-apiserver --requestheader-client-ca-file=/tmp/ca":  "--requestheader-client-ca-file is set by the server itself",
		"kube-apiserver --etcd-servers=http://localhost:1 stray": `"stray" is not a flag`,
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			var err error
			if args[0] == Etcd {
				_, err = NewEtcd(args[1:])
			} else {
				_, err = NewAPIServer(args[1:])
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		})
	}
}

// TestConfiguration: the command line of envtest becomes a configuration, with the
// store in the data directory of etcd.
func TestConfiguration(t *testing.T) {
	t.Setenv(ControllersVariable, "none")
	certificates, data := t.TempDir(), t.TempDir()
	for _, name := range []string{"apiserver.crt", "apiserver.key", "sa-signer.crt", "sa-signer.key"} {
		if err := os.WriteFile(filepath.Join(certificates, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server, err := NewAPIServer([]string{"--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", "--cert-dir=" + certificates,
		"--client-ca-file=" + certificates + "/client-cert-auth-ca.crt", "--disable-admission-plugins=ServiceAccount",
		"--etcd-servers=" + runEtcd(t, data, "--unsafe-no-fsync=true", "--quota-backend-bytes=100000000"), "--secure-port=40001", "--service-account-issuer=https://127.0.0.1:40001/",
		"--service-account-key-file=" + certificates + "/sa-signer.crt", "--service-account-signing-key-file=" + certificates + "/sa-signer.key",
		"--service-cluster-ip-range=10.0.0.0/24", "-v=2"})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := server.Configuration(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(cfg.DataDir, cfg.Etcd.Embedded.Fsync, cfg.Etcd.Embedded.QuotaBackend.Value(), cfg.Serving.Port, cfg.Serving.CertFile, cfg.APIServer.Authentication.ClientCAFile,
		cfg.APIServer.Authentication.ServiceAccountKeyFiles, len(cfg.ControllerManager.Controllers), cfg.APIs.Profile, cfg.Logging.Verbosity)
	want := fmt.Sprint(filepath.Join(data, subdirectory), false, 100000000, 40001, filepath.Join(certificates, "apiserver.crt"), certificates+"/client-cert-auth-ca.crt",
		[]string{certificates + "/sa-signer.crt"}, 0, config.ProfileKubernetes, 2)
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	if !cfg.HasArgument("disable-admission-plugins") || !cfg.HasArgument("anonymous-auth") {
		t.Errorf("the arguments are %v", cfg.Arguments())
	}
	if key, err := os.ReadFile(filepath.Join(cfg.DataDir, "pki", "service-account.key")); err != nil || string(key) != "sa-signer.key" {
		t.Errorf("the key that signs tokens is %q (%v)", key, err)
	}
}
