package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// issued makes a new pair NAME.crt and NAME.key in dir, signed by the authority
// that placeAuthority made there.
func issued(t *testing.T, dir, authority, name string, template *x509.Certificate) (certFile, keyFile string) {
	t.Helper()
	pki := filepath.Join(dir, "pki")
	certFile, keyFile = filepath.Join(pki, name+".crt"), filepath.Join(pki, name+".key")
	template.KeyUsage = x509.KeyUsageDigitalSignature
	crt, key := harness.ReadAuthority(t, filepath.Join(pki, authority)).Issue(t, template)
	harness.WritePair(t, filepath.Join(pki, name), crt, key)
	return certFile, keyFile
}

func serverTemplate(names ...string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: "ours"}, DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

func clientTemplate(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// TestTrustAndSigning: the server trusts several client CAs, serving CAs and
// token keys, and signs with one of each.
func TestTrustAndSigning(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	s.Kubectl("", "create", "serviceaccount", "robot")
	token := s.Kubectl("", "create", "token", "robot")
	s.Stop()

	pki, elsewhere := filepath.Join(s.Dir, "pki"), t.TempDir()
	for _, name := range []string{"added-ca", "configured-ca", "company-ca"} {
		placeAuthority(t, elsewhere, name)
	}
	place := func(name string) string { return filepath.Join(elsewhere, "pki", name) }
	// A second authority in the bundle, another in the configuration.
	bundle := append(harness.ReadFile(t, place("added-ca.crt")), harness.ReadFile(t, filepath.Join(pki, "client-ca.crt"))...)
	if err := os.WriteFile(filepath.Join(pki, "client-ca.crt"), bundle, 0o644); err != nil {
		t.Fatal(err)
	}
	// The old token key verifies only; the new one is in PKCS#8.
	if err := os.Rename(filepath.Join(pki, "service-account.key"), place("old.key")); err != nil {
		t.Fatal(err)
	}
	writePKCS8(t, filepath.Join(pki, "service-account.key"))
	certFile, keyFile := issued(t, elsewhere, "company-ca", "serving", serverTemplate("localhost"))
	config := harness.ConfigFile(t, fmt.Sprintf(`serving: {externalHost: localhost, certFile: %q, keyFile: %q, caFile: %q}
apiServer: {authentication: {clientCAFile: %q, serviceAccountKeyFiles: [%q]}}
`, certFile, keyFile, place("company-ca.crt"), place("configured-ca.crt"), place("old.key")))
	s = harness.StartIn(t, s.Dir, "--config", config)

	s.Kubectl("", "get", "namespaces")
	harness.Runs(t, harness.ExitOK, "status", "--data-dir", s.Dir, "--config", config)
	for _, authority := range []string{"added-ca", "configured-ca"} {
		crt, key := issued(t, elsewhere, authority, "jane-"+authority, clientTemplate("jane"))
		out, err := outsider(t, s, "--client-certificate", crt, "--client-key", key)("auth", "whoami")
		if err != nil || !strings.Contains(out, "jane") {
			t.Errorf("a client of the %s is refused: %s", authority, out)
		}
	}
	crt, key := issued(t, elsewhere, "company-ca", "joe", clientTemplate("joe"))
	if out, err := outsider(t, s, "--client-certificate", crt, "--client-key", key)("auth", "whoami"); err == nil {
		t.Errorf("a client of an authority for servers is accepted: %s", out)
	}
	userKubeconfig(t, s, "jim") // the server signs, with one of the authorities
	for name, token := range map[string]string{"old": token, "new": s.Kubectl("", "create", "token", "robot")} {
		if out, err := outsider(t, s, "--token", token)("auth", "whoami"); err != nil {
			t.Errorf("the %s token is refused: %s", name, out)
		}
	}
	awaitRootCA(t, s, string(harness.ReadFile(t, place("company-ca.crt"))))

	served := servedCertificate(t, s)
	if served.Issuer.CommonName != "our company-ca" {
		t.Fatalf("the certificate of %q is served", served.Issuer.CommonName)
	}
	issued(t, elsewhere, "company-ca", "serving", serverTemplate("localhost"))
	harness.Eventually(t, "the replaced certificate is served", func() error {
		if servedCertificate(t, s).Equal(served) {
			return errors.New("it is the old one")
		}
		return nil
	})
}

func writePKCS8(t *testing.T, file string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(harness.NewAuthority(t, "any").Key)
	if err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// TestRefusedServingCertificates names the field, and leaves no data
// directory with an identity that no client could use.
func TestRefusedServingCertificates(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	placeAuthority(t, elsewhere, "company-ca")
	certFile, keyFile := issued(t, elsewhere, "company-ca", "serving", serverTemplate("localhost"))
	future := serverTemplate("localhost")
	future.NotBefore = time.Now().Add(time.Hour)
	futureCert, futureKey := issued(t, elsewhere, "company-ca", "future", future)
	_, otherKey := issued(t, elsewhere, "company-ca", "other", serverTemplate("localhost"))
	ca := filepath.Join(elsewhere, "pki", "company-ca.crt")
	for name, test := range map[string]struct{ serving, want string }{
		"no key":         {fmt.Sprintf("certFile: %q", certFile), "certFile and keyFile go together"},
		"another key":    {fmt.Sprintf("certFile: %q, keyFile: %q", certFile, otherKey), "private key does not match"},
		"no file":        {fmt.Sprintf("certFile: /missing.crt, keyFile: %q", keyFile), "/missing.crt"},
		"a CA alone":     {fmt.Sprintf("caFile: %q", ca), "is what clients verify serving.certFile with"},
		"another name":   {fmt.Sprintf("certFile: %q, keyFile: %q, caFile: %q", certFile, keyFile, ca), "set serving.externalHost"},
		"not valid yet":  {fmt.Sprintf("externalHost: localhost, certFile: %q, keyFile: %q, caFile: %q", futureCert, futureKey, ca), "correct the clock"},
		"another issuer": {fmt.Sprintf("externalHost: localhost, certFile: %q, keyFile: %q", certFile, keyFile), "serving.caFile"},
	} {
		t.Run(name, func(t *testing.T) {
			config := harness.ConfigFile(t, "serving: {"+test.serving+"}\n")
			harness.Contains(t, harness.Runs(t, harness.ExitUsage, "server", "--config", config, "--data-dir", filepath.Join(t.TempDir(), "data"), "--port", "0"), test.want, config+":")
		})
	}
}
