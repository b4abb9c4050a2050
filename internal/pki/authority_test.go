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

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestUsedDirectoryWithoutIdentity is not given another one.
func TestUsedDirectoryWithoutIdentity(t *testing.T) {
	for _, file := range []string{"server-ca.crt", "client-ca.crt", "front-proxy-ca.crt", "service-account.key"} {
		t.Run(file, func(t *testing.T) {
			s := created(t)
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
			s := created(t)
			spoil(t, s)
			ensure(t, s)
			if err := accepted(t, s, bundle(t, s, ClientCA), s.Cert(Admin), x509.ExtKeyUsageClientAuth); err != nil {
				t.Error(err)
			}
			if found, err := datadir.Exists(s.nextKey(ClientCA)); found || err != nil {
				t.Errorf("a key is left: %v", err)
			}
		})
	}
}

// TestCertificatesFromTheFuture: a clock that was ahead by a time zone does not matter; by
// more, the error has the remedies.
func TestCertificatesFromTheFuture(t *testing.T) {
	for name, test := range map[string]struct {
		ahead time.Duration
		want  string
	}{"14 hours": {14 * time.Hour, ""}, "two days": {48 * time.Hour, "correct the clock"}} {
		t.Run(name, func(t *testing.T) {
			s := New(t.TempDir(), names)
			s.now = func() time.Time { return time.Now().Add(test.ahead) }
			ensure(t, s)
			s.now = time.Now
			changes, err := s.Ensure()
			if len(changes) > 0 || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("it made %v, %v", changes, err)
			}
			if err == nil {
				return
			}
			for _, kind := range []string{"server", "client", "front-proxy"} {
				rotate(t, s, kind, 0)
			}
			if crt := certificate(t, s, Admin); crt.NotBefore.After(time.Now()) {
				t.Errorf("after the rotation, the certificate is valid from %s", crt.NotBefore)
			}
		})
	}
}

// TestProvidedCertificateThatIsNotValidYet cannot be signed again, and is named.
func TestProvidedCertificateThatIsNotValidYet(t *testing.T) {
	s := created(t)
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
	other := created(t)
	s := created(t)
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
	if found, err := datadir.Exists(s.SigningPair(ClientCA)); err != nil || found {
		t.Errorf("the key was removed, and the signer still has it: %t, %v", found, err)
	}
}
