package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// mapPort forwards connections to a free port of host to a port of 127.0.0.1, as a
// container engine does, and returns the free port.
func mapPort(t *testing.T, host string, port int) (mapped string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // the test is over
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(client, fmt.Sprintf("127.0.0.1:%d", port))
		}
	}()
	_, mapped, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return mapped
}

// forward copies in both directions until one side ends.
func forward(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(client, server)
}

// TestExternalURL: with the address of a mapped port, the kubeconfig works from outside,
// and this program's commands on the server's machine do without that port.
func TestExternalURL(t *testing.T) {
	t.Parallel()
	port := harness.FreePort(t)
	mapped := "https://localhost:" + mapPort(t, "127.0.0.1", port)
	s := harness.LaunchWith(t, harness.Options{
		Args: []string{"--ephemeral", "--port", fmt.Sprint(port), "--tls-san", "mini.example.org", "--tls-san", "192.0.2.7"},
		Env:  []string{"KUBE_HYPER_MINI_EXTERNAL_URL=" + mapped},
	})
	s.WaitReady()
	written := harness.ReadFile(t, s.Kubeconfig)
	harness.Contains(t, string(written), "server: "+mapped+"\n")
	s.Kubectl("", "create", "configmap", "one")
	harness.Contains(t, s.Status(), mapped)

	config := s.RESTConfig()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	for _, name := range []string{"mini.example.org", "192.0.2.7", "localhost"} {
		connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{RootCAs: roots, ServerName: name})
		if err != nil {
			t.Errorf("as %s: %v", name, err)
			continue
		}
		_ = connection.Close()
	}

	// Printed with another address: one that the certificate has, and one that it lacks.
	for host, name := range map[string]string{"localhost": "", "127.0.0.2": "localhost"} {
		address := "127.0.0.1"
		if host != "localhost" {
			address = host
		}
		server := "https://" + net.JoinHostPort(host, mapPort(t, address, port))
		printed := harness.Runs(t, harness.ExitOK, "kubeconfig", "--data-dir", s.Dir, "--server", server)
		loaded, err := clientcmd.Load([]byte(printed))
		if err != nil {
			t.Fatal(err)
		}
		if cluster := loaded.Clusters["kube-hyper-mini"]; cluster == nil || cluster.Server != server || cluster.TLSServerName != name {
			t.Errorf("the cluster is %+v", cluster)
		}
		file := filepath.Join(t.TempDir(), "kubeconfig")
		harness.WriteFile(t, file, printed)
		if out, err := harness.Run(t, "", harness.KubectlBinary(t), "--kubeconfig", file, "get", "configmaps"); err != nil || !strings.Contains(out, "one") {
			t.Errorf("at %s: %v\n%s", server, err, out)
		}
	}
	if after, err := os.ReadFile(s.Kubeconfig); err != nil || string(after) != string(written) {
		t.Errorf("the server's file has changed: %v\n%s", err, after)
	}
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("it ended with exit code %d", code)
	}
}
