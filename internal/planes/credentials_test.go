package planes

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

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
		if !p.is(asleep) {
			h.sleepNow(t, "acme")
		}
		if got := whoAmI(t, h.with(t, "acme", test.credentials)); got != test.want {
			t.Errorf("%s is %q, want %q", who, got, test.want)
		}
		if woken := !p.is(asleep); woken != (test.want != "") {
			t.Errorf("%s: woken is %t", who, woken)
		}
	}
}

// waiting tells that something waits for its end.
type waiting struct {
	context.Context
	begun func()
}

// Done implements [context.Context].
func (w waiting) Done() <-chan struct{} {
	w.begun()
	return w.Context.Done()
}

// TestNobodyWakesOneThatWasHeld: a request without credentials that has waited for the end of a
// hold does not wake the control plane either.
func TestNobodyWakesOneThatWasHeld(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.create(t, "acme", nil)
	p, err := h.plane("acme")
	if err != nil {
		t.Fatal(err)
	}
	for what, query := range map[string]string{"a request": "", "a watch": "?watch=true"} {
		release, err := p.hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begun, answered := make(chan struct{}, 100), make(chan int, 1)
		ctx := waiting{t.Context(), func() { begun <- struct{}{} }}
		go func() {
			answer := httptest.NewRecorder()
			h.serve(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, prefix+"acme/api/v1/namespaces"+query, nil))
			answered <- answer.Code
		}()
		<-begun
		select {
		case code := <-answered:
			t.Errorf("%s has %d meanwhile", what, code)
		case <-time.After(100 * time.Millisecond):
		}
		release()
		if code := <-answered; code != http.StatusUnauthorized || !p.is(asleep) {
			t.Errorf("%s has %d, and it sleeps: %t", what, code, p.is(asleep))
		}
	}
}
