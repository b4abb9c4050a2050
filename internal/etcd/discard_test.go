package etcd

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDiscard removes what an interrupted first start left, readable or not,
// and nothing that has keys.
func TestDiscard(t *testing.T) {
	t.Parallel()
	torn := t.TempDir()
	if err := os.MkdirAll(filepath.Join(torn, "member", "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(torn, "member", "wal", "0000000000000000-0000000000000000.wal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Discard(torn); err != nil {
		t.Fatal(err)
	}
	stop(t, start(t, torn))

	used := t.TempDir()
	member := start(t, used)
	put(t, member, "key", "value")
	stop(t, member)
	if err := Discard(used); err != nil {
		t.Fatal(err)
	}
	member = start(t, used)
	if got, err := member.Client().Get(t.Context(), "key"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("data with keys was removed: %v %v", got, err)
	}
	stop(t, member)
}
