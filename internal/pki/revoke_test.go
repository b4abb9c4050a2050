package pki

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRevokeAdmin(t *testing.T) {
	s := created(t)
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

// TestRevokeWithoutAList: a key is refused although the list cannot be written, and the next
// revocation lists it, too.
func TestRevokeWithoutAList(t *testing.T) {
	s := created(t)
	first := certificate(t, s, Admin)
	list := filepath.Join(s.dir, revokedKeys)
	if err := os.Mkdir(list, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := s.RevokeAdmin()
	if err == nil || !strings.Contains(err.Error(), list) || !strings.Contains(err.Error(), "run the command again") {
		t.Errorf("the error is %v", err)
	}
	remove(t, list)
	if _, err := s.Ensure(); err != nil {
		t.Fatal(err)
	}
	second := certificate(t, s, Admin)
	if publicEqual(second.PublicKey, first.PublicKey) {
		t.Fatal("the revoked key was not replaced")
	}
	if _, err := s.RevokeAdmin(); err != nil {
		t.Fatal(err)
	}
	again := New(s.dir, names)
	if _, err := again.Ensure(); err != nil {
		t.Fatal(err)
	}
	for _, store := range []*Store{s, again} {
		if !store.Revoked(first) || !store.Revoked(second) || store.Revoked(certificate(t, s, Admin)) {
			t.Errorf("revoked: first %t, second %t, present %t", store.Revoked(first), store.Revoked(second),
				store.Revoked(certificate(t, s, Admin)))
		}
	}
}
