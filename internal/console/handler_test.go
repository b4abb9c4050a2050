package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// fixture is a handler of the name test.localhost and port 7788 with a clock that the test sets, in front of
// an API server that records the requests.
type fixture struct {
	t       *testing.T
	handler *handler
	time    time.Time
	log     bytes.Buffer
	asked   http.Header // of the last request to the API server
}

func newFixture(t *testing.T, api http.HandlerFunc) *fixture {
	t.Helper()
	f := &fixture{t: t, time: time.Unix(1_800_000_000, 0)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked = r.Header.Clone()
		if api != nil {
			api(w, r)
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, BearerToken: "of-the-kubeconfig"}
	h, err := newHandler(Options{Config: config, Context: `a "context"`, Log: slog.New(slog.NewTextHandler(&f.log, nil))}, 7788)
	if err != nil {
		t.Fatal(err)
	}
	h.sessions.now = func() time.Time { return f.time }
	h.host = "test.localhost:7788"
	f.handler = h
	return f
}

// do sends a request to the console, with headers as pairs.
func (f *fixture) do(method, target string, body io.Reader, headers ...string) *http.Response {
	f.t.Helper()
	r := httptest.NewRequest(method, "http://test.localhost:7788"+target, body)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w.Result()
}

// overHTTP returns the answer to a request of a session for the API server's types, over a
// connection. Its body is closed at the end of the test.
func (f *fixture) overHTTP(ctx context.Context) *http.Response {
	f.t.Helper()
	server := httptest.NewServer(f.handler)
	f.t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/k8s/api", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Host = f.handler.host
	session := f.session()
	for i := 0; i < len(session); i += 2 {
		r.Header.Set(session[i], session[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// token returns the unused token.
func (f *fixture) token() string {
	token, _ := f.handler.sessions.announce()
	return token
}

// session begins one, and returns the headers of its requests.
func (f *fixture) session() []string {
	f.t.Helper()
	answer := f.do(http.MethodGet, "/?token="+f.token(), nil)
	if answer.StatusCode != http.StatusOK {
		f.t.Fatalf("begin a session: %s", answer.Status)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	key := regexp.MustCompile(`name="key" content="(\w+)"`).FindSubmatch(body)
	if key == nil {
		f.t.Fatalf("no key in %s", body)
	}
	cookie, _, _ := strings.Cut(answer.Header.Get("Set-Cookie"), ";")
	return []string{"Cookie", cookie, keyHeader, string(key[1])}
}

// TestOrigins: only pages of this console reach the API server, and no other
// site can make its pages do something.
func TestOrigins(t *testing.T) {
	f := newFixture(t, nil)
	session := f.session()
	navigation := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for name, test := range map[string]struct {
		method, target string
		headers        []string
		want           int
	}{
		"the page":                       {"GET", "/k8s/api", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		"a write of the page":            {"DELETE", "/k8s/api/v1/namespaces/a", []string{"Origin", "http://test.localhost:7788", "Sec-Fetch-Site", "same-origin"}, 200},
		"by the name localhost":          {"GET", "/k8s/api", []string{"Host", "localhost:7788"}, 421},
		"by the address":                 {"GET", "/k8s/api", []string{"Host", "127.0.0.1:7788"}, 421},
		"the name of another run":        {"GET", "/k8s/api", []string{"Host", "other.localhost:7788"}, 421},
		"a name that leads to loopback":  {"GET", "/k8s/api", []string{"Host", "evil.example:7788"}, 421},
		"the same for the page":          {"GET", "/", []string{"Host", "evil.example:7788"}, 421},
		"the same for assets":            {"GET", "/assets/index.html", []string{"Host", "evil.example:7788"}, 421},
		"a name without the port":        {"GET", "/k8s/api", []string{"Host", "test.localhost"}, 421},
		"another address of loopback":    {"GET", "/k8s/api", []string{"Host", "127.0.0.2:7788"}, 421},
		"no host":                        {"GET", "/k8s/api", []string{"Host", ""}, 421},
		"another site":                   {"GET", "/k8s/api", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another port":                   {"GET", "/k8s/api", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"an address typed for the API":   {"GET", "/k8s/api", []string{"Sec-Fetch-Site", "none"}, 403},
		"another origin":                 {"POST", "/k8s/api", []string{"Origin", "http://evil.example"}, 403},
		"the origin of another port":     {"POST", "/k8s/api", []string{"Origin", "http://127.0.0.1:1"}, 403},
		"a local file":                   {"POST", "/k8s/api", []string{"Origin", "null"}, 403},
		"localhost asks":                 {"POST", "/k8s/api", []string{"Origin", "http://localhost:7788"}, 403},
		"a link on another site":         {"GET", "/", append([]string{"Sec-Fetch-Site", "cross-site"}, navigation...), 200},
		"a picture on another site":      {"GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, 403},
		"a frame on another site":        {"GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		"a link to the API":              {"GET", "/k8s/api", append([]string{"Sec-Fetch-Site", "cross-site"}, navigation...), 403},
		"a connection that is no longer": {"GET", "/k8s/api", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 501},
		"a method for the page":          {"POST", "/", nil, 405},
		"a file outside":                 {"GET", "/assets/..%2fconsole.go", nil, 404},
		"a control plane":                {"GET", "/clusters/acme", []string{"Sec-Fetch-Site", "none"}, 200},
		"one linked on another site":     {"GET", "/clusters/acme", append([]string{"Sec-Fetch-Site", "cross-site"}, navigation...), 403},
		"below it":                       {"GET", "/clusters/acme/api", nil, 404},
		"no name":                        {"GET", "/clusters/..acme", nil, 404},
		"its API":                        {"GET", "/k8s/clusters/acme/api", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		"the API of no name":             {"GET", "/k8s/clusters/a%2Fb/api", nil, 404},
		"the API of a long name":         {"GET", "/k8s/clusters/" + strings.Repeat("a", 64) + "/api", nil, 404},
	} {
		t.Run(name, func(t *testing.T) {
			answer := f.do(test.method, test.target, nil, append(append([]string{}, session...), test.headers...)...)
			if answer.StatusCode != test.want {
				t.Errorf("%d, want %d", answer.StatusCode, test.want)
			}
		})
	}
}

// TestRandomName: each run has another name, so that what a browser has stored for the
// port, such as a service worker of another user's server, does not belong to it.
func TestRandomName(t *testing.T) {
	options := Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler)}
	names := map[string]bool{}
	for range 2 {
		h, err := newHandler(options, 7788)
		if err != nil {
			t.Fatal(err)
		}
		if name, found := strings.CutSuffix(h.host, ".localhost:7788"); !found || len(name) < 20 || name != strings.ToLower(name) {
			t.Errorf("the host is %q", h.host)
		}
		names[h.host] = true
	}
	if len(names) != 2 {
		t.Errorf("two runs have the name %v", names)
	}
}

// TestBothAddressesOfLoopback: no other server can take the console's port on the one
// that the console does not use.
func TestBothAddressesOfLoopback(t *testing.T) {
	listeners, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(listeners[0])
	for _, address := range []string{"127.0.0.1", "::1"} {
		if other, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port))); err == nil {
			t.Errorf("another server listens on %s", other.Addr())
			_ = other.Close()
		}
	}
	if _, err := listen(port); err == nil || !strings.Contains(err.Error(), "--port") {
		t.Errorf("a port that is taken: %v", err)
	}
	for _, listener := range listeners {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHeaders: every answer forbids what the page does not need.
func TestHeaders(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src *", "Access-Control-Allow-Origin": "*", "Set-Cookie": "a=b", "Refresh": "0;url=http://evil.example",
			"Service-Worker-Allowed": "/", "X-Content-Type-Options": "", "Location": "http://evil.example", "Cache-Control": "public", "Warning": `299 - "old"`,
		} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(http.StatusNotFound)
	})
	session := f.session()
	for name, answer := range map[string]*http.Response{
		"the page":         f.do("GET", "/", nil, session...),
		"the entry":        f.do("GET", "/?x=y", nil, session...),
		"its script":       f.do("GET", enterScriptPath, nil),
		"an asset":         f.do("GET", "/assets/index.html", nil),
		"nothing":          f.do("GET", "/nothing", nil),
		"no session":       f.do("GET", "/", nil),
		"no session, API":  f.do("GET", "/k8s/api", nil),
		"a wrong host":     f.do("GET", "/", nil, "Host", "evil.example"),
		"another site":     f.do("GET", "/", nil, "Origin", "http://evil.example"),
		"the API's answer": f.do("GET", "/k8s/api", nil, session...),
	} {
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'", "Cache-Control": "",
		} {
			if got := answer.Header.Values(header); len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("%s: %s is %q, want one that begins with %q", name, header, got, want)
			}
		}
		if policy := answer.Header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy is %q", name, policy)
		}
	}
	answer := f.do("GET", "/k8s/api", nil, session...)
	for _, header := range []string{"Access-Control-Allow-Origin", "Set-Cookie", "Refresh", "Service-Worker-Allowed", "Location"} {
		if got := answer.Header.Get(header); got != "" {
			t.Errorf("the API server's %s reaches the browser: %q", header, got)
		}
	}
	if got := answer.Header.Get("Warning"); got == "" {
		t.Error("the API server's warning does not reach the page")
	}
}

// TestInformationalAnswers: an answer 103 of the API server, which an aggregated one
// may send, does not remove the headers that restrict the browser.
func TestInformationalAnswers(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</assets/app.js>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusOK)
	})
	answer := f.overHTTP(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			t.Errorf("the answer %d reaches the browser", code)
			return nil
		},
	}))
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	for header, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
	} {
		if got := answer.Header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
}

// TestForwardedRequests: they have the kubeconfig's rights, and what the browser
// adds does not change them.
func TestForwardedRequests(t *testing.T) {
	f := newFixture(t, nil)
	f.do("GET", "/k8s/api", nil, append(f.session(), "Authorization", "Bearer other", "Impersonate-User", "root", "Impersonate-Extra-A", "b",
		"X-Remote-User", "root", "X-Forwarded-For", "1.2.3.4", "Accept", "application/json;as=Table")...)
	for name, want := range map[string]string{
		"Authorization": "Bearer of-the-kubeconfig", "Impersonate-User": "", "Impersonate-Extra-A": "", "X-Remote-User": "", "Cookie": "",
		keyHeader: "", "X-Forwarded-For": "", "Accept": "application/json;as=Table",
	} {
		if got := f.asked.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestContextIsText: the name of a kubeconfig's context is not markup.
func TestContextIsText(t *testing.T) {
	f := newFixture(t, nil)
	body, err := io.ReadAll(f.do("GET", "/", nil, f.session()...).Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := `content="a &quot;context&quot;"`; !strings.Contains(string(body), want) {
		t.Errorf("%s is missing in %s", want, body)
	}
}
