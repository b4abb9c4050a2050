package e2e

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
	"k8s.io/kms/pkg/service"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// plugin is a KMS v2 plugin with one key.
type plugin struct {
	key    cipher.AEAD
	socket string
	server *grpc.Server
	ended  chan error
}

func newPlugin(t *testing.T) *plugin {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: a socket's path has room for 100 characters.
	dir, err := os.MkdirTemp("", "kms-")
	if err != nil {
		t.Fatal(err)
	}
	p := &plugin{key: aead, socket: filepath.Join(dir, "socket")}
	t.Cleanup(func() {
		p.stop(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// start listens; the plugin keeps its key from start to start.
func (p *plugin) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	p.server, p.ended = grpc.NewServer(), make(chan error, 1)
	kmsapi.RegisterKeyManagementServiceServer(p.server, service.NewGRPCService(p.socket, time.Second, p))
	go func() { p.ended <- p.server.Serve(listener) }()
}

func (p *plugin) stop(t *testing.T) {
	t.Helper()
	if p.server == nil {
		return
	}
	p.server.Stop()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	p.server = nil
}

// Encrypt implements service.Service.
func (p *plugin) Encrypt(_ context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	return &service.EncryptResponse{Ciphertext: p.key.Seal(nil, nil, data, nil), KeyID: "the-key"}, nil
}

// Decrypt implements service.Service.
func (p *plugin) Decrypt(_ context.Context, _ string, request *service.DecryptRequest) ([]byte, error) {
	if request.KeyID != "the-key" {
		return nil, fmt.Errorf("no key %q", request.KeyID)
	}
	return p.key.Open(nil, nil, request.Ciphertext, nil)
}

// Status implements service.Service.
func (p *plugin) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: "the-key"}, nil
}

// config writes the two files that make a server use the plugin.
func (p *plugin) config(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	content := fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, widgets.example.com]
  providers:
  - kms: {apiVersion: v2, name: vault, endpoint: "unix://%s", timeout: 3s}
`, p.socket)
	harness.WriteFile(t, file, content)
	return harness.ConfigFile(t, fmt.Sprintf("apiServer: {encryption: {configFile: %s}}", file))
}

// TestKMS: with upstream's file instead of the local key, secrets and custom resources are
// encrypted with a key that an outside plugin keeps, are there after a restart, and the
// server is not ready without the plugin.
func TestKMS(t *testing.T) {
	t.Parallel()
	p := newPlugin(t)
	p.start(t)
	config := p.config(t)
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir, "--config", config)
	s.Kubectl("", "create", "secret", "generic", "s", "--from-literal=key=PlainTextOfTheSecret")
	k := kind{"example.com", "widgets", "widget", "Widget"}
	define(t, s, k, k.definition("Namespaced"))
	s.Kubectl(k.object("w", "spec: {text: PlainTextOfTheWidget}"), "create", "-f", "-")
	client, host := admin(t, s)
	harness.Contains(t, healthy(t, client, host+"/readyz?verbose"), "[+]kms-providers ok")
	if code := s.Stop(); code != harness.ExitOK {
		t.Fatalf("the server ended with exit code %d", code)
	}
	if onDisk(t, dir, "PlainTextOf") || !onDisk(t, dir, "k8s:enc:kms:v2:vault:") {
		t.Error("an object is on the disk in plain text, or nothing carries the plugin's mark")
	}
	if _, err := os.Stat(filepath.Join(dir, "encryption")); !os.IsNotExist(err) {
		t.Errorf("a local key was made although the configuration brings its own: %v", err)
	}

	s = harness.StartIn(t, dir, "--config", config)
	read := func() string {
		return s.Kubectl("", "get", "secret", "s", "-o", "go-template={{.data.key | base64decode}}")
	}
	if got := read(); got != "PlainTextOfTheSecret" {
		t.Errorf("after a restart the secret reads %q", got)
	}
	if lines := harness.Problems(s.Log()); lines != "" {
		t.Errorf("with the plugin there the server complains:\n%s", lines)
	}
	p.stop(t)
	client, host = admin(t, s)
	harness.Eventually(t, "readiness misses the plugin", func() error {
		_, err := answers(t, client, host+"/readyz?verbose", http.StatusInternalServerError, "[-]kms-providers failed")
		return err
	})
	p.start(t)
	harness.Eventually(t, "the server is ready again", func() error {
		_, err := answers(t, client, host+"/readyz", http.StatusOK, "ok")
		return err
	})
	if got := read(); got != "PlainTextOfTheSecret" {
		t.Errorf("when the plugin is back the secret reads %q", got)
	}
}

// TestKMSUnavailableAtStart: the server waits for the plugin, and logs that.
func TestKMSUnavailableAtStart(t *testing.T) {
	t.Parallel()
	p := newPlugin(t)
	s := harness.Launch(t, filepath.Join(t.TempDir(), "data"), "--config", p.config(t))
	harness.Eventually(t, "the server says that it waits for the plugin", func() error {
		out, code := harness.CLI(t, "status", "--data-dir", s.Dir)
		if code != harness.ExitNotReady || !strings.Contains(out, "not ready") || !strings.Contains(out, "waits for kms-providers") {
			return fmt.Errorf("exit code %d:\n%s", code, out)
		}
		return nil
	})
	s.WaitLog("kms-providers")
	p.start(t)
	s.WaitReady()
	s.Kubectl("", "create", "secret", "generic", "s", "--from-literal=key=value")
}
