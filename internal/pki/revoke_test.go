package pki

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRevokeAdmin(t *testing.T) {
	s := New(t.TempDir(), names)
	ensure(t, s)
	old := certificate(t, s, Admin)
	if s.Revoked(old) {
		t.Fatal("it is revoked from the start")
	}
	changes, err := s.RevokeAdmin()
	if err != nil || !slices.Equal(changed(changes), []string{Admin}) {
		t.Fatalf("it made %v, %v", changes, err)
	}
	fresh := certificate(t, s, Admin)
	if publicEqual(fresh.PublicKey, old.PublicKey) {
		t.Error("the new certificate has the old key")
	}
	again := New(s.dir, names)
	if _, err := again.Ensure(); err != nil {
		t.Fatal(err)
	}
	for _, store := range []*Store{s, again} {
		if !store.Revoked(old) || store.Revoked(fresh) {
			t.Errorf("revoked: old %t, new %t", store.Revoked(old), store.Revoked(fresh))
		}
	}
	remove(t, s.Key(ClientCA))
	if _, err := s.RevokeAdmin(); err == nil || s.Revoked(fresh) {
		t.Errorf("without a key to sign a new one, it was revoked: %v", err)
	}
}

// TestRevokeOnAnotherServer: what one server has revoked is refused by another one,
// which makes a new certificate if it has the same key.
func TestRevokeOnAnotherServer(t *testing.T) {
	for name, test := range map[string]struct {
		spoil        func(t *testing.T, s *Store)
		made         []string
		err          string
		afterRestart bool // it is still refused
	}{
		"the same key": {made: []string{Admin}, afterRestart: true},
		"another key":  {spoil: func(t *testing.T, s *Store) { remove(t, s.Key(Admin)); remove(t, s.Cert(Admin)); ensure(t, s) }, afterRestart: true},
		"cannot sign":  {spoil: func(t *testing.T, s *Store) { remove(t, s.Key(ClientCA)) }, err: "place that key", afterRestart: true},
		"cannot write": {spoil: func(t *testing.T, s *Store) {
			if err := os.Mkdir(filepath.Join(s.dir, revokedKeys), 0o700); err != nil {
				t.Fatal(err)
			}
		}, err: revokedKeys},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := New(t.TempDir(), names), New(t.TempDir(), names)
			ensure(t, first)
			if err := os.CopyFS(second.dir, os.DirFS(first.dir)); err != nil {
				t.Fatal(err)
			}
			if test.spoil != nil {
				test.spoil(t, second)
			}
			old := certificate(t, first, Admin)
			if _, err := first.RevokeAdmin(); err != nil {
				t.Fatal(err)
			}
			keys, err := first.RevokedKeys()
			if err != nil || len(keys) != 1 {
				t.Fatalf("the revoked keys are %v, %v", keys, err)
			}
			keys["../../x"] = "is no fingerprint"
			changes, err := second.Revoke(keys)
			if !slices.Equal(changed(changes), test.made) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("it made %v, %v", changes, err)
			}
			if changes, err := second.Revoke(keys); err != nil && test.err != revokedKeys || changes != nil {
				t.Errorf("the second time it made %v, %v", changes, err)
			}
			if !second.Revoked(old) {
				t.Error("it is not refused")
			}
			if !test.afterRestart {
				return
			}
			again := New(second.dir, names)
			if _, err := again.Ensure(); err != nil || !again.Revoked(old) {
				t.Errorf("after a restart: revoked %t, %v", again.Revoked(old), err)
			}
		})
	}
}
