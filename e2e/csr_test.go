package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// request makes a key, and a CertificateSigningRequest with its public half.
func request(t *testing.T, name, user string, groups ...string) (keyFile, manifest string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyFile = filepath.Join(t.TempDir(), "user.key")
	writePEM(t, keyFile, "PRIVATE KEY", der)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, Organization: groups},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	return keyFile, fmt.Sprintf(`apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: %s}
spec:
  signerName: kubernetes.io/kube-apiserver-client
  expirationSeconds: 3600
  usages: [client auth]
  request: %s
`, name, encoded)
}

func writePEM(t *testing.T, file, block string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCertificateSigningRequest(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, user := namespace(t, s), unique("jane")
	key, manifest := request(t, user, user, "developers")
	s.Kubectl(manifest, "create", "-f", "-")
	t.Cleanup(func() { s.Kubectl("", "delete", "csr", user) })
	harness.Contains(t, s.Kubectl("", "get", "csr", user), "Pending")
	if issued := s.Kubectl("", "get", "csr", user, "-o", "jsonpath={.status.certificate}"); issued != "" {
		t.Fatal("a request that is not approved is signed")
	}
	s.Kubectl("", "certificate", "approve", user)
	s.Await("jsonpath={.status.certificate}", "csr/"+user)
	harness.Contains(t, s.Kubectl("", "get", "csr", user), "Approved,Issued")
	cert := filepath.Join(t.TempDir(), "user.crt")
	issued := s.Kubectl("", "get", "csr", user, "-o", "go-template={{.status.certificate | base64decode}}")
	if err := os.WriteFile(cert, []byte(issued), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl := outsider(t, s, "--client-certificate", cert, "--client-key", key)
	out, err := kubectl("auth", "whoami")
	if err != nil {
		t.Fatalf("the signed certificate is refused: %v\n%s", err, out)
	}
	harness.Contains(t, out, user, "developers", "system:authenticated")
	s.Kubectl("", "create", "rolebinding", "developers", "-n", ns, "--clusterrole=edit", "--group=developers")
	harness.Eventually(t, "the certificate's group may write", func() error {
		out, err := kubectl("create", "configmap", "mine", "-n", ns)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}

// TestCertificateSigningRequestIsRefused: requests for system:masters and
// denied requests are not signed.
func TestCertificateSigningRequestIsRefused(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	user := unique("jane")
	_, manifest := request(t, user, user, "system:masters")
	refused(t, s, manifest, []string{"create", "-f", "-"}, "system:masters")

	_, manifest = request(t, user, user)
	s.Kubectl(manifest, "create", "-f", "-")
	t.Cleanup(func() { s.Kubectl("", "delete", "csr", user) })
	s.Kubectl("", "certificate", "deny", user)
	harness.Contains(t, s.Kubectl("", "get", "csr", user), "Denied")
	refused(t, s, "", []string{"certificate", "approve", user}, "Denied")
}
