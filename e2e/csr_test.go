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
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// request makes a CertificateSigningRequest for a new key.
func request(t *testing.T, user string, groups ...string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, Organization: groups},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	return fmt.Sprintf(`apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: %s}
spec:
  signerName: kubernetes.io/kube-apiserver-client
  expirationSeconds: 3600
  usages: [client auth]
  request: %s
`, user, encoded)
}

// TestCertificateSigningRequestIsRefused: requests for system:masters, and those that were
// not approved or were denied, are not signed.
func TestCertificateSigningRequestIsRefused(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	user := unique("jane")
	refused(t, s, request(t, user, "system:masters"), []string{"create", "-f", "-"}, "system:masters")

	s.Kubectl(request(t, user), "create", "-f", "-")
	t.Cleanup(func() { s.Kubectl("", "delete", "csr", user) })
	unsigned := func() {
		t.Helper()
		if issued := s.Kubectl("", "get", "csr", user, "-o", "jsonpath={.status.certificate}"); issued != "" {
			t.Error("the request is signed")
		}
	}
	unsigned()
	s.Kubectl("", "certificate", "deny", user)
	harness.Contains(t, s.Kubectl("", "get", "csr", user), "Denied")
	refused(t, s, "", []string{"certificate", "approve", user}, "Denied")
	unsigned()
}
