package pki

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// accepted reports whether a peer that trusts roots accepts what the file holds.
func accepted(t *testing.T, s *Store, roots []*x509.Certificate, file string, usage x509.ExtKeyUsage) error {
	t.Helper()
	chain, err := readCerts(file)
	if err != nil || len(chain) == 0 {
		t.Fatalf("%s: %v, %v", file, chain, err)
	}
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: s.now(), KeyUsages: []x509.ExtKeyUsage{usage}}
	for _, crt := range roots {
		options.Roots.AddCert(crt)
	}
	for _, crt := range chain[1:] {
		options.Intermediates.AddCert(crt)
	}
	_, err = chain[0].Verify(options)
	return err
}

func bundle(t *testing.T, s *Store, name string) []*x509.Certificate {
	t.Helper()
	list, err := readCerts(s.Cert(name))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func rotate(t *testing.T, s *Store, kind string, overlap time.Duration) {
	t.Helper()
	if _, err := s.Prepare(kind); err != nil {
		t.Fatal(err)
	}
	changed := s.Changed()
	if _, err := s.Switch(kind, overlap); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("a rotation is no change")
	}
}

var rotated = []struct {
	kind, authority, leaf string
	usage                 x509.ExtKeyUsage
}{
	{"server", ServerCA, APIServer, x509.ExtKeyUsageServerAuth},
	{"client", ClientCA, Admin, x509.ExtKeyUsageClientAuth},
	{"front-proxy", FrontProxyCA, FrontProxy, x509.ExtKeyUsageClientAuth},
}

// TestRotationOfAnAuthority: at each step, certificates of before and of after
// are accepted by peers of before and of after; at its end only the new ones.
func TestRotationOfAnAuthority(t *testing.T) {
	for _, test := range rotated {
		t.Run(test.kind, func(t *testing.T) {
			s := created(t)
			oldRoots := bundle(t, s, test.authority)
			oldLeaf := filepath.Join(t.TempDir(), "old.crt")
			copyFile(t, s.Cert(test.leaf), oldLeaf)

			if _, err := s.Prepare(test.kind); err != nil {
				t.Fatal(err)
			}
			both := bundle(t, s, test.authority)
			if len(both) != 2 || certificate(t, s, test.leaf).CheckSignatureFrom(oldRoots[0]) != nil {
				t.Fatalf("when it is prepared, %d are trusted, and the old one must sign", len(both))
			}
			if _, err := s.Switch(test.kind, time.Hour); err != nil {
				t.Fatal(err)
			}
			newRoots := []*x509.Certificate{both[0]}
			for what, roots := range map[string][]*x509.Certificate{"old": oldRoots, "both": both, "new": newRoots} {
				if err := accepted(t, s, roots, s.Cert(test.leaf), test.usage); err != nil {
					t.Errorf("in the overlap, the new certificate is refused by a peer that trusts %s: %v", what, err)
				}
			}
			if err := accepted(t, s, bundle(t, s, test.authority), oldLeaf, test.usage); err != nil {
				t.Errorf("in the overlap, an old certificate is refused: %v", err)
			}
			if list, err := readCerts(s.SigningPair(ClientCA)); err != nil || len(list) != 1 || list[0].CheckSignature(list[0].SignatureAlgorithm, list[0].RawTBSCertificate, list[0].Signature) != nil {
				t.Errorf("the signer of certificate requests has %d certificates, %v", len(list), err)
			}

			s.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
			changes, err := s.Ensure()
			if err != nil || !slices.Contains(changed(changes), test.authority) {
				t.Fatalf("at the end of the overlap it did %v, %v", changes, err)
			}
			after := bundle(t, s, test.authority)
			if len(after) != 1 || !after[0].Equal(both[0]) {
				t.Errorf("after the overlap, %d are trusted", len(after))
			}
			if err := accepted(t, s, after, s.Cert(test.leaf), test.usage); err != nil {
				t.Errorf("after the overlap: %v", err)
			}
			if err := accepted(t, s, after, oldLeaf, test.usage); err == nil {
				t.Error("after the overlap, an old certificate is accepted")
			}
			if chain, err := readCerts(s.Cert(test.leaf)); err != nil || len(chain) != 1 {
				t.Errorf("after the overlap, the certificate has a chain of %d, %v", len(chain), err)
			}
			retired, err := s.Retired()
			if err != nil || retired == nil || !retired(oldRoots[0]) || retired(after[0]) {
				t.Errorf("the old authority is not known as retired: %v", err)
			}
			rotate(t, s, test.kind, 0) // again, and at once
			if got := bundle(t, s, test.authority); len(got) != 1 || got[0].Equal(after[0]) {
				t.Errorf("a rotation without overlap leaves %d trusted", len(got))
			}
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = datadir.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRotationOfTheTokenKey(t *testing.T) {
	s := created(t)
	keys := func() TokenKeys {
		t.Helper()
		keys, err := s.TokenKeys()
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	old := keys().Signer.Public()
	if _, err := s.Prepare("service-account"); err != nil {
		t.Fatal(err)
	}
	if k := keys(); len(k.Verify) != 2 || !publicEqual(k.Signer.Public(), old) {
		t.Fatalf("when it is prepared, %d keys verify", len(k.Verify))
	}
	if _, err := s.Switch("service-account", time.Hour); err != nil {
		t.Fatal(err)
	}
	k := keys()
	if publicEqual(k.Signer.Public(), old) || !slices.ContainsFunc(k.Verify, func(key crypto.PublicKey) bool { return publicEqual(key, old) }) {
		t.Error("in the overlap, the old key signs, or does not verify")
	}
	if _, err := s.Finish("service-account"); err != nil {
		t.Fatal(err)
	}
	if k := keys(); len(k.Verify) != 1 || publicEqual(k.Verify[0], old) {
		t.Errorf("after the overlap, %d keys verify", len(k.Verify))
	}
}

// TestRotationContinuesAfterACrash: at every write that a rotation makes, with
// what was written before it.
func TestRotationContinuesAfterACrash(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			name, err := fileOf(kind)
			if err != nil {
				t.Fatal(err)
			}
			base := created(t)
			before := snapshot(t, base.dir)
			rotate(t, base, kind, time.Hour)
			after := snapshot(t, base.dir)
			journalOf := func(phase string) string {
				j := &journal{}
				if err := json.Unmarshal([]byte(after["rotations.json"]), j); err != nil {
					t.Fatal(err)
				}
				j.Rotations[name].Phase, j.Rotations[name].Overlap = phase, time.Hour
				data, err := json.Marshal(j)
				if err != nil {
					t.Fatal(err)
				}
				return string(data)
			}
			prepared := []string{name + ".crt", name + "-cross.crt", ServiceAccount + ".pub"}
			for state, change := range map[string]func(files map[string]string){
				"before the key": func(f map[string]string) { f["rotations.json"] = journalOf(preparing) },
				"before the certificate": func(f map[string]string) {
					f["rotations.json"], f[name+"-next.key"] = journalOf(preparing), after[name+".key"]
				},
				"before it is prepared": func(f map[string]string) {
					f["rotations.json"], f[name+"-next.key"] = journalOf(preparing), after[name+".key"]
					take(f, after, prepared)
				},
				"before the switch": func(f map[string]string) {
					f["rotations.json"], f[name+"-next.key"] = journalOf(switching), after[name+".key"]
					take(f, after, prepared)
				},
				"after the switch": func(f map[string]string) {
					f["rotations.json"] = journalOf(switching)
					take(f, after, append([]string{name + ".key"}, prepared...))
				},
				"before the certificates": func(f map[string]string) {
					f["rotations.json"] = journalOf(signing)
					take(f, after, append([]string{name + ".key"}, prepared...))
				},
			} {
				t.Run(state, func(t *testing.T) {
					dir := t.TempDir()
					files := map[string]string{}
					for file, content := range before {
						files[file] = content
					}
					change(files)
					for file, content := range files {
						overwrite(t, filepath.Join(dir, file), content)
					}
					s := New(dir, names)
					if _, err := s.Ensure(); err != nil {
						t.Fatal(err)
					}
					// A rotation that was being prepared waits for its switch.
					if _, err := s.Switch(kind, time.Hour); (err == nil) != strings.Contains(files["rotations.json"], `"preparing"`) {
						t.Fatalf("the switch: %v", err)
					}
					if _, err := s.Finish(kind); err != nil {
						t.Fatal(err)
					}
					if left, err := os.ReadFile(filepath.Join(dir, name+"-next.key")); err == nil {
						t.Errorf("a key is left: %s", left)
					}
					for _, test := range rotated {
						if err := accepted(t, s, bundle(t, s, test.authority), s.Cert(test.leaf), test.usage); err != nil {
							t.Error(err)
						}
						if n := len(bundle(t, s, test.authority)); n != 1 {
							t.Errorf("%d authorities are trusted as %s", n, test.kind)
						}
					}
				})
			}
		})
	}
}

func take(files, from map[string]string, names []string) {
	for _, name := range names {
		if content, ok := from[name]; ok {
			files[name] = content
		}
	}
}

func TestRefusedRotations(t *testing.T) {
	for name, test := range map[string]struct {
		act  func(t *testing.T, s *Store) error
		want string
	}{
		"an unknown kind": {func(_ *testing.T, s *Store) error { _, err := s.Prepare("etcd"); return err }, "allowed: [client front-proxy server service-account]"},
		"without the key": {func(t *testing.T, s *Store) error {
			remove(t, s.Key(ClientCA))
			_, err := s.Prepare("client")
			return err
		}, "does not exist, so the authority cannot be rotated"},
		"twice": {func(t *testing.T, s *Store) error {
			rotate(t, s, "client", time.Hour)
			_, err := s.Prepare("client")
			return err
		}, "the old one is trusted until"},
		"a switch to nothing": {func(_ *testing.T, s *Store) error { _, err := s.Switch("client", 0); return err }, "prepare it first"},
		"the end of nothing":  {func(_ *testing.T, s *Store) error { _, err := s.Finish("client"); return err }, "client is not being rotated"},
		"the end of a crash before the switch": {func(t *testing.T, s *Store) error {
			if _, err := s.Prepare("client"); err != nil {
				t.Fatal(err)
			}
			_, err := s.Finish("client")
			return err
		}, `complete it with "kube-hyper-mini certs rotate client"`},
		"a damaged journal": {func(t *testing.T, s *Store) error {
			overwrite(t, s.journalFile(), "{")
			_, err := s.Ensure()
			return err
		}, "take the file from a backup"},
	} {
		t.Run(name, func(t *testing.T) {
			s := created(t)
			if err := test.act(t, s); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it said: %v", err)
			}
		})
	}
}

// TestRotationThatCannotBeWritten leaves a server that starts and renews.
func TestRotationThatCannotBeWritten(t *testing.T) {
	s := created(t)
	before := snapshot(t, s.dir)
	if err := os.Mkdir(s.verifyKeys(), 0o700); err != nil { // in the way of what the rotation writes
		t.Fatal(err)
	}
	if _, err := s.Prepare("service-account"); err == nil || !strings.Contains(err.Error(), s.verifyKeys()) {
		t.Fatalf("it said: %v", err)
	}
	remove(t, s.verifyKeys())
	if changes, err := s.Ensure(); err != nil || len(changes) > 0 {
		t.Errorf("afterwards it made %v, %v", changes, err)
	}
	remove(t, s.journalFile())
	for file, content := range snapshot(t, s.dir) {
		if before[file] != content {
			t.Errorf("%s was left or changed", file)
		}
	}
	rotate(t, s, "service-account", 0)
}

// TestSigningPairBelongsTogether: the signer of certificate requests reads a key with its
// certificate also when a rotation has replaced only one of the authority's files.
func TestSigningPairBelongsTogether(t *testing.T) {
	s := created(t)
	if err := writeCerts(s.Cert(ClientCA+"-signing"), bundle(t, s, ClientCA)...); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		t.Helper()
		data, err := os.ReadFile(s.SigningPair(ClientCA))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tls.X509KeyPair(data, data); err != nil {
			t.Errorf("the signer gets: %v", err)
		}
		return string(data)
	}
	before := read()
	if _, err := s.Prepare("client"); err != nil {
		t.Fatal(err)
	}
	if err := s.useNextKey(ClientCA); err != nil { // what Switch begins with
		t.Fatal(err)
	}
	if read() != before {
		t.Error("the pair has changed before the rotation has made both files")
	}
	if _, err := s.Switch("client", time.Hour); err != nil {
		t.Fatal(err)
	}
	if read() == before {
		t.Error("the old authority signs after the rotation")
	}
}

// TestRotationOfExpiredAuthorities: a rotation without an overlap replaces each, as the
// error of a start advises.
func TestRotationOfExpiredAuthorities(t *testing.T) {
	s := created(t)
	now := time.Now().Add(authorityLife + time.Hour)
	s.now = func() time.Time { return now }
	if _, err := s.Ensure(); err == nil {
		t.Fatal("the authorities have not expired")
	}
	for _, kind := range []string{"server", "client", "front-proxy"} {
		rotate(t, s, kind, 0)
	}
	if _, err := s.Ensure(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ServerCA, ClientCA, FrontProxyCA, APIServer, Admin, FrontProxy} {
		crt := certificate(t, s, name)
		if now.Before(crt.NotBefore) || now.After(crt.NotAfter) {
			t.Errorf("%s is valid from %s to %s", name, crt.NotBefore, crt.NotAfter)
		}
	}
}
