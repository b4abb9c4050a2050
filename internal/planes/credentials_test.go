package planes

import (
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestWhoWakes: only credentials of a control plane, and those of its administrators on the host,
// wake it.
func TestWhoWakes(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	own, err := kubernetes.NewForConfig(h.config)
	if err != nil {
		t.Fatal(err)
	}
	acme, beta := h.create(t, "acme", nil), h.create(t, "beta", nil)
	p, err := h.plane("acme")
	if err != nil {
		t.Fatal(err)
	}
	for who, test := range map[string]struct {
		credentials func(*rest.Config)
		want        string
	}{
		"nobody":                   {func(*rest.Config) {}, ""},
		"any token":                {func(c *rest.Config) { c.BearerToken = "token" }, ""},
		"a token of beta":          {token(t, beta), ""},
		"a token of the host":      {token(t, own), ""},
		"beta's administrator":     {h.adminOf(t, "beta"), ""},
		"a token of acme":          {token(t, acme), "system:serviceaccount:default:default"},
		"acme's own administrator": {h.adminOf(t, "acme"), "admin"},
		"the host's administrator": {func(c *rest.Config) {
			c.CertData, c.KeyData, c.CertFile, c.KeyFile = h.config.CertData, h.config.KeyData, h.config.CertFile, h.config.KeyFile
		}, "host:admin"},
	} {
		if !p.isAsleep() {
			h.sleepNow(t, "acme")
		}
		if got := whoAmI(t, h.with(t, "acme", test.credentials)); got != test.want {
			t.Errorf("%s is %q, want %q", who, got, test.want)
		}
		if woken := !p.isAsleep(); woken != (test.want != "") {
			t.Errorf("%s: woken is %t", who, woken)
		}
	}
}
