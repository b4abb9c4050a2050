package pki

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestUsedDirectoryWithoutIdentity is not given another one.
func TestUsedDirectoryWithoutIdentity(t *testing.T) {
	for _, file := range []string{"server-ca.crt", "client-ca.crt", "front-proxy-ca.crt", "service-account.key"} {
		t.Run(file, func(t *testing.T) {
			s := New(t.TempDir(), names)
			ensure(t, s)
			path := filepath.Join(s.dir, file)
			remove(t, path)
			before := snapshot(t, s.dir)
			_, err := s.Ensure()
			var missing *MissingError
			if !errors.As(err, &missing) || !slices.Equal(missing.Files, []string{path}) {
				t.Errorf("it said: %v", err)
			}
			if after := snapshot(t, s.dir); len(after) != len(before) {
				t.Errorf("it wrote something: %d files, then %d", len(before), len(after))
			}
		})
	}
}

// TestCrashDuringTheCreationOfAnAuthority: the next start continues.
func TestCrashDuringTheCreationOfAnAuthority(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, s *Store){
		"after the key": func(t *testing.T, s *Store) {
			if err := os.Rename(s.Key(ClientCA), s.nextKey(ClientCA)); err != nil {
				t.Fatal(err)
			}
			remove(t, s.Cert(ClientCA))
		},
		"after the certificate": func(t *testing.T, s *Store) {
			if err := os.Rename(s.Key(ClientCA), s.nextKey(ClientCA)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(t.TempDir(), names)
			ensure(t, s)
			spoil(t, s)
			ensure(t, s)
			if err := accepted(t, s, bundle(t, s, ClientCA), s.Cert(Admin), x509.ExtKeyUsageClientAuth); err != nil {
				t.Error(err)
			}
			if found, err := exists(s.nextKey(ClientCA)); found || err != nil {
				t.Errorf("a key is left: %v", err)
			}
		})
	}
}

// TestCertificatesFromTheFuture: what is ours is signed again with the same
// keys, so that old kubeconfigs work once their time has come.
func TestCertificatesFromTheFuture(t *testing.T) {
	s := New(t.TempDir(), names)
	s.now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	ensure(t, s)
	old := bundle(t, s, ClientCA)
	s.now = time.Now
	changes, err := s.Ensure()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ServerCA, ClientCA, FrontProxyCA, APIServer, Admin} {
		if !slices.ContainsFunc(changes, func(c Change) bool {
			return c.Name == name && c.ClockAhead && strings.Contains(c.Reason, "not valid before")
		}) {
			t.Errorf("%s was not signed again: %v", name, changes)
		}
		if crt := certificate(t, s, name); crt.NotBefore.After(time.Now()) {
			t.Errorf("%s is valid from %s", name, crt.NotBefore)
		}
	}
	if err := certificate(t, s, Admin).CheckSignatureFrom(old[0]); err != nil {
		t.Errorf("it does not verify with the old authority: %v", err)
	}

	theirs := New(t.TempDir(), names)
	theirs.now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	theirs.authorities[1].commonName = "placed"
	ensure(t, theirs)
	placed := New(theirs.dir, names)
	if _, err := placed.Ensure(); err == nil || !strings.Contains(err.Error(), "correct the clock") {
		t.Errorf("of a placed authority it said: %v", err)
	}
}

// TestProvidedCertificateThatIsNotValidYet cannot be signed again, and is named.
func TestProvidedCertificateThatIsNotValidYet(t *testing.T) {
	s := New(t.TempDir(), names)
	ensure(t, s)
	s.now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	remove(t, s.Cert(APIServer))
	ensure(t, s)
	remove(t, s.Key(ServerCA))
	s.now = time.Now
	if _, err := s.Ensure(); err == nil || !strings.Contains(err.Error(), s.Cert(APIServer)+" is not valid before") {
		t.Errorf("it said: %v", err)
	}
}

// TestSeveralAuthoritiesAreTrusted: the file is a bundle, of which one signs.
func TestSeveralAuthoritiesAreTrusted(t *testing.T) {
	other := New(t.TempDir(), names)
	ensure(t, other)
	s := New(t.TempDir(), names)
	ensure(t, s)
	signs := bundle(t, s, ClientCA)[0]
	if err := writeCerts(s.Cert(ClientCA), append(bundle(t, other, ClientCA), signs)...); err != nil {
		t.Fatal(err)
	}
	if changes, err := s.Ensure(); err != nil || len(changes) > 0 {
		t.Fatalf("it made %v, %v", changes, err)
	}
	if list, err := readCerts(s.SigningPair(ClientCA)); err != nil || len(list) != 1 || !list[0].Equal(signs) {
		t.Errorf("it signs with %v, %v", list, err)
	}
	// The key may be elsewhere: then none signs, and all are trusted.
	remove(t, s.Key(ClientCA))
	if changes, err := s.Ensure(); err != nil || len(changes) > 0 {
		t.Errorf("without the key it made %v, %v", changes, err)
	}
	if found, err := exists(s.SigningPair(ClientCA)); err != nil || found {
		t.Errorf("the key was removed, and the signer still has it: %t, %v", found, err)
	}
}
