package clients

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// variable is set by "make e2e-clients".
const variable = "KHM_CLIENTS"

// TestCertManager issues a certificate as the help topic clients describes.
func TestCertManager(t *testing.T) {
	if os.Getenv(variable) == "" {
		t.Skip("make e2e-clients runs it")
	}
	root := filepath.Join(harness.Root(t), "e2e")
	module := filepath.Join(root, "certmanager")
	binary := harness.Build(t, module, ".", "cert-manager")
	s := harness.Start(t)
	session := harness.NewSession(t, s)
	session.Program("helm", harness.Build(t, filepath.Join(root, "helm"), "helm.sh/helm/v3/cmd/helm", "helm"))
	for _, part := range []string{"controller", "webhook", "cainjector"} {
		session.Program(part, script(t, fmt.Sprintf("exec '%s' %s \"$@\"", binary, part)))
	}
	session.Replace = strings.NewReplacer(
		"./cert-manager-chart", filepath.Join(sources(t, module, "github.com/cert-manager/cert-manager"), "deploy", "charts", "cert-manager"),
		"10250", fmt.Sprint(harness.FreePort(t)),
	)
	scripts := harness.Scripts(t, harness.Topic("clients"), "## cert-manager")
	if len(scripts) != 2 {
		t.Fatalf("the section has %d scripts", len(scripts))
	}
	for _, script := range scripts {
		session.Enter(script)
	}
	issued(t, s)
	refusesInvalid(t, s)
}

// issued checks the certificate in the secret.
func issued(t *testing.T, s *harness.Server) {
	t.Helper()
	secret, err := s.Client().CoreV1().Secrets("default").Get(t.Context(), "widgets-tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data["tls.crt"])
	if block == nil {
		t.Fatalf("the secret has no certificate: %v", secret)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := certificate.VerifyHostname("widgets.example.com"); err != nil {
		t.Error(err)
	}
}

// refusesInvalid checks that the webhook is called.
func refusesInvalid(t *testing.T, s *harness.Server) {
	t.Helper()
	out, err := s.TryKubectl("", "patch", "certificate", "widgets", "-n", "default", "--type=merge", "-p", `{"spec": {"duration": "2h", "renewBefore": "3h"}}`)
	if err == nil {
		t.Errorf("a certificate that is renewed before it is issued was accepted:\n%s", out)
	}
	harness.Contains(t, out, "webhook.cert-manager.io", "spec.renewBefore")
}

// script makes a program of a shell command.
func script(t *testing.T, command string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+command+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// sources is the directory of the sources of a module, which another module requires.
func sources(t *testing.T, module, path string) string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path)
	cmd.Dir = module
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("find the sources of %s: %v", path, err)
	}
	return strings.TrimSpace(string(out))
}
