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

// TestRevokeWithoutAList: a key is refused although the list cannot be written.
func TestRevokeWithoutAList(t *testing.T) {
	s := New(t.TempDir(), names)
	ensure(t, s)
	old := certificate(t, s, Admin)
	if err := os.Mkdir(filepath.Join(s.dir, revokedKeys), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RevokeAdmin(); err == nil || !strings.Contains(err.Error(), revokedKeys) || !s.Revoked(old) {
		t.Errorf("revoked %t, %v", s.Revoked(old), err)
	}
}
