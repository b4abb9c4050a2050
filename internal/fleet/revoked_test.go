package fleet

import (
	"context"
	"maps"
	"testing"
)

// TestRevokedKeys: what one server adds is what another one reads, without what other
// prefixes have, and a wait ends with a change.
func TestRevokedKeys(t *testing.T) {
	client := startEtcd(t)
	first, second, elsewhere := NewRevokedKeys(client, "/registry"), NewRevokedKeys(client, "/registry"), NewRevokedKeys(client, "/other")
	list := func(keys *RevokedKeys, want map[string]string) int64 {
		t.Helper()
		got, revision, err := keys.List(t.Context())
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("the keys are %v, %v, want %v", got, err, want)
		}
		return revision
	}
	before := list(second, map[string]string{})
	for _, remark := range []string{"one", "again"} { // the first remark stays
		if err := first.Add(t.Context(), map[string]string{"a": remark}); err != nil {
			t.Fatal(err)
		}
	}
	if err := second.Await(t.Context(), before); err != nil {
		t.Error(err)
	}
	now := list(second, map[string]string{"a": "one"})
	list(elsewhere, map[string]string{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.Await(ended, now); err != nil {
		t.Errorf("a wait that was ended: %v", err)
	}
}
