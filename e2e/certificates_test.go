package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// servedCertificate returns the serving certificate of the server.
func servedCertificate(t *testing.T, s *harness.Server) *x509.Certificate {
	t.Helper()
	address, err := url.Parse(s.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // the test inspects it
	conn, err := dialer.DialContext(t.Context(), "tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // nothing was sent
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

func readCertificate(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	certificates, err := cert.CertsFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return certificates[0]
}

// resign replaces a certificate by one for the same key and names that is due
// for renewal after the given time. Renewal is due when a third of the lifetime
// is left.
func resign(t *testing.T, dir, name, authority string, due time.Duration) *x509.Certificate {
	t.Helper()
	const life = 3 * time.Hour
	readAuthority(t, dir, authority).signInto(t, dir, name, due-life*2/3, due+life/3)
	return readCertificate(t, filepath.Join(dir, "pki", name+".crt"))
}

// TestDataDirectoryModes: keys are for the owner only.
func TestDataDirectoryModes(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	keys := 0
	err := filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // etcd has removed one of its files
			}
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		want := fs.FileMode(0o600)
		switch {
		case entry.IsDir():
			want = 0o700
		case strings.HasSuffix(path, ".crt"):
			want = 0o644
		case strings.HasSuffix(path, ".snap"): // etcd's own mode; the directories above are closed
			return nil
		case strings.HasSuffix(path, ".key"):
			keys++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has the mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if keys != 9 {
		t.Errorf("%d keys, want those of 3 authorities, 4 certificates and the service accounts, and the pair that signs for clients", keys)
	}
}

// TestIdentityIsStable: a restart changes no credential, and copied kubeconfigs
// keep working.
func TestIdentityIsStable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	port := strconv.Itoa(harness.FreePort(t))
	s := harness.StartIn(t, dir, "--port", port)
	before := harness.ReadFile(t, s.Kubeconfig)
	s.Kubectl("", "create", "serviceaccount", "robot")
	token := s.Kubectl("", "create", "token", "robot")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	s = harness.StartIn(t, dir, "--port", port)
	after := harness.ReadFile(t, s.Kubeconfig)
	if string(before) != string(after) {
		t.Error("the restart has changed the kubeconfig")
	}
	if out, err := outsider(t, s, "--token", token)("auth", "whoami"); err != nil {
		t.Errorf("a token from before the restart is refused: %s", out)
	}
}

func portOf(t *testing.T, s *harness.Server) string {
	t.Helper()
	address, err := url.Parse(s.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	return address.Port()
}

// TestServingNames: configured names are in the certificate, also those added
// later.
func TestServingNames(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir)
	if err := servedCertificate(t, s).VerifyHostname("api.example.com"); err == nil {
		t.Error("a name that is not configured is in the certificate")
	}
	s.Stop()
	s = harness.StartIn(t, dir, "--config", harness.ConfigFile(t, "serving: {externalHost: localhost, extraSANs: [api.example.com, 192.0.2.7]}"))
	served := servedCertificate(t, s)
	for _, name := range []string{"api.example.com", "192.0.2.7", "localhost", "127.0.0.1", "kubernetes.default.svc"} {
		if err := served.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	harness.Contains(t, s.RESTConfig().Host, "https://localhost:")
	s.Kubectl("", "get", "namespaces")
}

func placeAuthority(t *testing.T, dir, name string) {
	t.Helper()
	pki := filepath.Join(dir, "pki")
	if err := os.MkdirAll(pki, 0o700); err != nil {
		t.Fatal(err)
	}
	harness.NewAuthority(t, "our "+name).Write(t, filepath.Join(pki, name))
}

// TestCertificatesAreRenewedWhileRunning: the server shows the new serving
// certificate without a restart, and the kubeconfig has the new admin's.
func TestCertificatesAreRenewedWhileRunning(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir)
	var serving, admin *x509.Certificate
	// The certificates must not be due before the server shows them: each
	// attempt leaves more time for the start.
	for due := 4 * time.Second; ; due *= 2 {
		s.Stop()
		serving, admin = resign(t, dir, "apiserver", "server-ca", due), resign(t, dir, "admin", "client-ca", due)
		s = harness.StartIn(t, dir)
		if servedCertificate(t, s).Equal(serving) {
			break
		}
		if due > harness.Patience {
			t.Fatal("the server renews certificates that are not due")
		}
	}
	copied := filepath.Join(t.TempDir(), "copied.kubeconfig")
	harness.WriteFile(t, copied, string(harness.ReadFile(t, s.Kubeconfig)))
	s.WaitLog("certificates renewed")
	harness.Eventually(t, "the new certificate is served", func() error {
		if served := servedCertificate(t, s); served.Equal(serving) {
			return errors.New("it is the old one")
		}
		return nil
	})
	harness.Eventually(t, "the kubeconfig has the new admin's certificate", func() error {
		config, err := clientcmd.LoadFromFile(s.Kubeconfig)
		if err != nil {
			return err
		}
		block, _ := pem.Decode(config.AuthInfos["kube-hyper-mini"].ClientCertificateData)
		if block == nil || string(block.Bytes) == string(admin.Raw) {
			return errors.New("it has the old one")
		}
		return nil
	})
	s.Kubectl("", "get", "namespaces")
	if out, err := harness.Run(t, "", harness.KubectlBinary(t), "--kubeconfig", copied, "get", "namespaces"); err != nil {
		t.Errorf("a copy of the kubeconfig has stopped working: %v\n%s", err, out)
	}
}

// TestKeysReadableByOthers: keys and directories that other users could use are corrected
// at the start, which logs it.
func TestKeysReadableByOthers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if code := harness.StartIn(t, dir).Stop(); code != harness.ExitOK {
		t.Fatalf("the server ended with exit code %d", code)
	}
	key, directory := filepath.Join(dir, "pki", "server-ca.key"), filepath.Join(dir, "pki")
	if err := errors.Join(os.Chmod(key, 0o644), os.Chmod(directory, 0o777)); err != nil {
		t.Fatal(err)
	}
	s := harness.StartIn(t, dir)
	harness.Contains(t, s.Log(), key+" had the mode 0644", directory+" had the mode 0777", "replace keys")
	for _, path := range []string{key, directory} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o027 != 0 {
			t.Errorf("%s has the mode %v, %v", path, info.Mode(), err)
		}
	}
}
