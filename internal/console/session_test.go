package console

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestSessionNeedsCookieAndKey: another port of this machine gets the cookie, and
// has not the key.
func TestSessionNeedsCookieAndKey(t *testing.T) {
	f := newFixture(t, nil)
	session := f.session()
	other := f.session()
	for name, test := range map[string]struct {
		headers []string
		want    int
	}{
		"both":                   {session, 200},
		"the cookie":             {session[:2], 401},
		"the key":                {session[2:], 401},
		"another session's key":  {append(append([]string{}, session[:2]...), other[2:]...), 401},
		"an empty key":           {append(append([]string{}, session[:2]...), keyHeader, ""), 401},
		"a cookie that is wrong": {[]string{"Cookie", "kube-hyper-mini-console=x", keyHeader, session[3]}, 401},
	} {
		answer := f.do("GET", "/k8s/api", nil, test.headers...)
		if answer.StatusCode != test.want {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, test.want)
		}
		if ended := answer.Header.Get("X-Console-Session") == "expired"; ended != (test.want == 401) {
			t.Errorf("%s: X-Console-Session is expired: %v", name, ended)
		}
	}
}

// TestTokens: each lets one browser in, for some time.
func TestTokens(t *testing.T) {
	f := newFixture(t, nil)
	enter := func(token string) int { return f.do("GET", "/?token="+token, nil).StatusCode }
	first := f.token()
	if code := enter("wrong"); code != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", code)
	}
	answer := f.do("GET", "/?token="+first, nil)
	cookie := answer.Header.Get("Set-Cookie")
	if answer.StatusCode != http.StatusOK || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || !strings.Contains(cookie, "Path=/") ||
		answer.Header.Get("Clear-Site-Data") != `"cache", "storage"` {
		t.Errorf("the token: %d, cookie %q", answer.StatusCode, cookie)
	}
	if code := enter(first); code != http.StatusUnauthorized {
		t.Errorf("a used token: %d", code)
	}
	second := f.token()
	f.time = f.time.Add(tokenAge + time.Second)
	if code := enter(second); code != http.StatusUnauthorized {
		t.Errorf("a token that has expired: %d", code)
	}
	if third := f.token(); third == second {
		t.Error("no new token follows one that has expired")
	} else if code := enter(third); code != http.StatusOK {
		t.Errorf("the token after it: %d", code)
	}
}

// TestSessionLimits: a session ends by its age and when no requests come.
func TestSessionLimits(t *testing.T) {
	f := newFixture(t, nil)
	works := func(session []string) bool { return f.do("GET", "/k8s/api", nil, session...).StatusCode == 200 }
	idle := f.session()
	f.time = f.time.Add(sessionIdle)
	if !works(idle) {
		t.Error("it has ended before it was idle too long")
	}
	f.time = f.time.Add(sessionIdle + time.Second)
	if works(idle) {
		t.Error("it works after it was idle")
	}
	old := f.session()
	for begun := f.time; f.time.Sub(begun) < sessionAge-time.Minute; f.time = f.time.Add(30 * time.Minute) {
		if !works(old) {
			t.Fatalf("it has ended after %v", f.time.Sub(begun))
		}
	}
	f.time = f.time.Add(sessionAge)
	if works(old) {
		t.Error("it works beyond its age")
	}
	if got := f.do("GET", "/", nil, old...).StatusCode; got != http.StatusUnauthorized {
		t.Errorf("its page: %d", got)
	}
	f.session()
	if n := len(f.handler.sessions.started); n != 1 {
		t.Errorf("%d sessions are kept, want that which can be used", n)
	}
}

// TestWatchEndsWithItsSession: a request that has begun does not outlive it.
func TestWatchEndsWithItsSession(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	session := f.session()
	for _, each := range f.handler.sessions.started {
		each.ends = f.time.Add(10 * time.Millisecond)
	}
	if answer := f.do("GET", "/k8s/api/v1/namespaces?watch=true", nil, session...); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the watch ended with %d", answer.StatusCode)
	}
}

// TestRefusalsDoNotFillTheLog: each address is printed once, however often it is
// asked for.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	f := newFixture(t, nil)
	lines := func() int { return strings.Count(f.log.String(), "\n") }
	f.token() // printed at the start
	for range 1000 {
		f.do("GET", "/", nil)
		f.do("GET", "/?token=wrong", nil)
		f.do("GET", "/k8s/api", nil)
		f.do("POST", sessionPath, strings.NewReader("token=wrong"), "Content-Type", "application/x-www-form-urlencoded")
	}
	if lines() != 0 {
		t.Errorf("%d lines for requests without a session, while the printed address is unused", lines())
	}
	f.session()
	for range 1000 {
		f.do("GET", "/", nil)
	}
	if lines() != 1 || !strings.Contains(f.log.String(), "http://test.localhost:7788/?token=") {
		t.Errorf("%d lines, want one with the next address:\n%s", lines(), &f.log)
	}
	f.time = f.time.Add(tokenAge + time.Second)
	f.do("GET", "/", nil)
	if lines() != 2 {
		t.Errorf("%d lines after the address has expired, want 2", lines())
	}
}

// TestOpening: the file that opens the browser is readable by its user only and
// leads to a session.
func TestOpening(t *testing.T) {
	f := newFixture(t, nil)
	token := f.token()
	file, err := newOpening(f.handler.host, token)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(file) }()
	if info, err := os.Stat(file); err != nil || !datadir.HasMode(info, 0o600) {
		t.Errorf("%s: %v, %v", file, info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), token) || !strings.Contains(string(text), `action="http://test.localhost:7788/session"`) {
		t.Errorf("the file is %s", text)
	}
	form := strings.NewReader(url.Values{"token": {token}}.Encode())
	answer := f.do("POST", sessionPath, form, "Content-Type", "application/x-www-form-urlencoded", "Origin", "null",
		"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Set-Cookie") == "" {
		t.Errorf("its form: %s", answer.Status)
	}
}
