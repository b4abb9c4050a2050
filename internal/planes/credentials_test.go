package planes

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestWhoWakes: only credentials of a control plane, and those of its administrators on the host,
// wake it.
func TestWhoWakes(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	own := newClient(t, h.config)
	acme, beta := h.create(t, "acme", nil), h.create(t, "beta", nil)
	p := h.known(t, "acme")
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
		"the host's administrator": {h.administrator, "host:admin"},
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

// TestWhoWakesWithoutKeys: only administrators on the host wake a control plane that has no keys,
// since it was not started yet, is a copy, or has lost its directory. Others learn nothing of it.
func TestWhoWakesWithoutKeys(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	beta := h.create(t, "beta", nil)
	forged := map[string]func(*rest.Config){"a token": token(t, beta), "a certificate": h.adminOf(t, "beta")}
	h.create(t, "new", nil)
	h.create(t, "copy", map[string]any{"from": map[string]any{"controlPlane": "beta"}})
	addMap(t, h.create(t, "lost", nil), "one")
	h.sleepNow(t, "lost")
	for name, starts := range map[string]bool{"new": true, "copy": true, "lost": false} {
		p := h.known(t, name)
		if !starts {
			if err := os.RemoveAll(p.dir()); err != nil {
				t.Fatal(err)
			}
		}
		for who, credentials := range forged {
			_, err := h.with(t, name, credentials).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
			if !apierrors.IsUnauthorized(err) || !p.is(asleep) {
				t.Errorf("%s of another one gets %v from %s, which sleeps: %t", who, err, name, p.is(asleep))
			}
		}
		_, err := h.client(t, name).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if starts && err != nil || !starts && (err == nil || !strings.Contains(err.Error(), p.dir()+" is missing")) {
			t.Errorf("the administrator gets %v from %s", err, name)
		}
		if starts {
			continue
		}
		answer := httptest.NewRecorder()
		h.refuse(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, prefix+"lost/api", nil), name, err)
		if body := answer.Body.String(); answer.Code != http.StatusServiceUnavailable || strings.Contains(body, p.dir()) {
			t.Errorf("whoever could not be asked for gets %d: %s", answer.Code, body)
		}
	}
}

// TestWhoKeepsAwake: only requests that could wake a control plane keep it awake, and begin its lifetime anew.
func TestWhoKeepsAwake(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	acme, beta := h.create(t, "acme", nil), h.create(t, "beta", nil)
	awaitFirstWrites(t, acme)
	p := h.known(t, "acme")
	administrator := h.adminOf(t, "acme")
	for who, test := range map[string]struct {
		credentials func(*rest.Config)
		path        string
		fails, uses bool
	}{
		"nobody's health check":          {func(*rest.Config) {}, "/readyz", false, false},
		"a health check with a password": {func(c *rest.Config) { c.Username, c.Password = "a", "b" }, "/readyz", false, false},
		"nobody":                         {func(*rest.Config) {}, "/api/v1/namespaces", true, false},
		"a token of beta":                {token(t, beta), "/api/v1/namespaces", true, false},
		"a token of acme":                {token(t, acme), "/version", false, true},
		"acme's own administrator":       {administrator, "/api/v1/namespaces", false, true},
	} {
		used := time.Now().Add(-time.Hour)
		eventually(t, "the request before has ended", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.verified, p.lastUsed = used, used
			return p.requests == 0
		})
		_, err := h.with(t, "acme", test.credentials).Discovery().RESTClient().Get().AbsPath(test.path).DoRaw(t.Context())
		if apierrors.IsUnauthorized(err) != test.fails || !test.fails && err != nil {
			t.Errorf("%s gets %v", who, err)
		}
		eventually(t, "the request has ended", func() bool {
			_, idle := p.idleSince()
			return idle
		})
		if uses := !p.lastUse().Equal(used); uses != test.uses {
			t.Errorf("%s uses it: %t", who, uses)
		}
	}
}

func (p *plane) lastUse() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastUsed
}

// TestTokenOfAWebsocket: a token among the websocket protocols wakes a control plane, and one that is
// awake accepts that of an administrator of the host.
func TestTokenOfAWebsocket(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	own := newClient(t, h.config)
	acme := h.create(t, "acme", nil)
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}
	grant(t, acme, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"watch"}}, account)
	grant(t, own, rbacv1.PolicyRule{APIGroups: []string{Resource.Group}, Resources: []string{"controlplanes/admin"}, Verbs: []string{"update"}}, account)
	for who, credentials := range map[string]func(*rest.Config){"acme": token(t, acme), "the host": token(t, own)} {
		config := rest.AnonymousClientConfig(h.config)
		credentials(config)
		protocols := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(config.BearerToken)) + ", base64.binary.k8s.io"
		config.BearerToken, config.NextProtos = "", []string{"http/1.1"}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		dial := func() int {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.config.Host+prefix+"acme/api/v1/configmaps?watch=true", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
				"Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}, "Sec-Websocket-Protocol": {protocols}, "Origin": {h.config.Host}}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close() // the connection has ended
			return answer.StatusCode
		}
		eventually(t, "the grants are known", func() bool { return dial() == http.StatusSwitchingProtocols })
		h.sleepNow(t, "acme")
		if code := dial(); code != http.StatusSwitchingProtocols {
			t.Errorf("a token of %s gets %d from one that sleeps", who, code)
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
	p := h.known(t, "acme")
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
