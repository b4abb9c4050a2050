package pki

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

var names = Names{DNS: []string{"localhost", "mini.example.org"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}

// ensure begins an identity or keeps it, and returns the names of what was
// made.
func ensure(t *testing.T, s *Store) []string {
	t.Helper()
	changes, err := s.Create()
	if err != nil {
		t.Fatal(err)
	}
	return changed(changes)
}

// created is a store with an identity.
func created(t *testing.T) *Store {
	t.Helper()
	s := New(t.TempDir(), names)
	ensure(t, s)
	return s
}

func changed(changes []Change) []string {
	var names []string
	for _, change := range changes {
		names = append(names, change.Name)
	}
	return names
}

func certificate(t *testing.T, s *Store, name string) *x509.Certificate {
	t.Helper()
	crt, err := s.readCert(name)
	if err != nil || crt == nil {
		t.Fatalf("certificate %s: %v, %v", name, crt, err)
	}
	return crt
}

func TestEnsureCreatesAllFiles(t *testing.T) {
	s := created(t)
	for _, test := range []struct {
		name, authority, commonName, group string
		usage                              x509.ExtKeyUsage
	}{
		{APIServer, ServerCA, "kube-hyper-mini", "", x509.ExtKeyUsageServerAuth},
		{Admin, ClientCA, "admin", "system:masters", x509.ExtKeyUsageClientAuth},
		{Controller, ClientCA, "system:kube-controller-manager", "", x509.ExtKeyUsageClientAuth},
		{FrontProxy, FrontProxyCA, "front-proxy-client", "", x509.ExtKeyUsageClientAuth},
	} {
		roots := x509.NewCertPool()
		roots.AddCert(certificate(t, s, test.authority))
		crt := certificate(t, s, test.name)
		options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{test.usage}}
		if test.name == APIServer {
			options.DNSName = "mini.example.org"
		}
		if _, err := crt.Verify(options); err != nil {
			t.Errorf("%s does not verify: %v", test.name, err)
		}
		if crt.Subject.CommonName != test.commonName || (test.group != "") != slices.Contains(crt.Subject.Organization, test.group) {
			t.Errorf("%s names %v", test.name, crt.Subject)
		}
	}
	for _, name := range []string{ServerCA, ClientCA, FrontProxyCA, APIServer, Admin, Controller, FrontProxy, ServiceAccount} {
		if info, err := os.Stat(s.Key(name)); err != nil || !datadir.HasMode(info, 0o600) {
			t.Errorf("key %s: %v, %v", name, info, err)
		}
	}
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(data)
	}
	return files
}

func TestRenewalKeepsTheKey(t *testing.T) {
	s := created(t)
	before := certificate(t, s, Admin)
	for _, test := range []struct {
		name string
		left time.Duration
		want bool
	}{
		{"more than a third left", (leafLife+backdate)/3 + time.Hour, false},
		{"a third left", (leafLife+backdate)/3 - time.Hour, true}, // last: time does not go back
	} {
		t.Run(test.name, func(t *testing.T) {
			s.now = func() time.Time { return before.NotAfter.Add(-test.left) }
			written := ensure(t, s)
			if slices.Contains(written, Admin) != test.want {
				t.Fatalf("it wrote %v", written)
			}
			after := certificate(t, s, Admin)
			if test.want && (!after.NotAfter.After(before.NotAfter) || !publicEqual(after.PublicKey, before.PublicKey)) {
				t.Errorf("the renewed certificate ends at %s and has another key", after.NotAfter)
			}
		})
	}
}

func TestProvidedAuthorityIsUsed(t *testing.T) {
	theirs := created(t)
	ours := New(t.TempDir(), names)
	for _, path := range []string{theirs.Cert(ClientCA), theirs.Key(ClientCA)} {
		copyFile(t, path, filepath.Join(ours.dir, filepath.Base(path)))
	}
	ensure(t, ours)
	if err := certificate(t, ours, Admin).CheckSignatureFrom(certificate(t, theirs, ClientCA)); err != nil {
		t.Errorf("the placed authority did not sign: %v", err)
	}
}

func TestAuthorityWithoutItsKey(t *testing.T) {
	s := created(t)
	remove(t, s.Key(ServerCA))
	if written := ensure(t, s); len(written) != 0 {
		t.Errorf("it wrote %v", written)
	}
	remove(t, s.Cert(APIServer))
	_, err := s.Ensure()
	if err == nil || !strings.Contains(err.Error(), s.Key(ServerCA)) {
		t.Errorf("without a certificate and a key to sign one it said: %v", err)
	}
}

func TestEnsureRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(t *testing.T, s *Store)
		want  string
	}{
		"a garbage certificate":              {func(t *testing.T, s *Store) { overwrite(t, s.Cert(Admin), "garbage") }, "is not a PEM certificate"},
		"a garbage key":                      {func(t *testing.T, s *Store) { overwrite(t, s.Key(ServiceAccount), "garbage") }, "is not a PEM private key"},
		"a key of another authority":         {func(t *testing.T, s *Store) { copyFile(t, s.Key(FrontProxyCA), s.Key(ClientCA)) }, "do not belong together"},
		"a certificate that is no authority": {func(t *testing.T, s *Store) { copyFile(t, s.Cert(Admin), s.Cert(ClientCA)) }, "is not a CA certificate"},
		"a key without its authority":        {func(t *testing.T, s *Store) { remove(t, s.Cert(ClientCA)) }, "missing: "},
		"a certificate without its key":      {func(t *testing.T, s *Store) { remove(t, s.Key(Admin)) }, "exists without"},
		"an authority that has expired": {func(t *testing.T, s *Store) {
			s.now = func() time.Time { return time.Now().Add(authorityLife + time.Hour) }
		}, "expired at"},
	} {
		t.Run(name, func(t *testing.T) {
			s := created(t)
			test.spoil(t, s)
			before := snapshot(t, s.dir)
			_, err := s.Ensure()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it said: %v", err)
			}
			for file, content := range snapshot(t, s.dir) {
				if before[file] != content {
					t.Errorf("%s was changed", file)
				}
			}
		})
	}
}

func overwrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
