package fleet

import (
	"errors"
	"testing"
)

// TestReserveIdentity: of the servers that begin to make authorities at the same time one may,
// and none may when one has published its own. Other prefixes do not count.
func TestReserveIdentity(t *testing.T) {
	client := startEtcd(t)
	for _, prefix := range []string{"/registry", "/registry/nested"} {
		if unused, err := ReserveIdentity(t.Context(), client, prefix); err != nil || !unused {
			t.Errorf("%s: the first: %t, %v", prefix, unused, err)
		}
		if unused, err := ReserveIdentity(t.Context(), client, prefix); !errors.Is(err, ErrReserved) || unused {
			t.Errorf("%s: the second: %t, %v", prefix, unused, err)
		}
	}
	if _, err := client.Put(t.Context(), "/other/configmaps/kube-system/extension-apiserver-authentication", "published"); err != nil {
		t.Fatal(err)
	}
	if unused, err := ReserveIdentity(t.Context(), client, "/other"); err != nil || unused {
		t.Errorf("after the authorities were published: %t, %v", unused, err)
	}
}
