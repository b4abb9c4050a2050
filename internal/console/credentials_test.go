package console

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestNewCredentials: once the API server refuses the credentials, the console reads the
// kubeconfig again, and uses it for the same API server only.
func TestNewCredentials(t *testing.T) {
	accepted, requests := "first", 0
	api := func(w http.ResponseWriter, r *http.Request) {
		requests++
		if r.Header.Get("Authorization") != "Bearer "+accepted {
			http.Error(w, "no", http.StatusUnauthorized)
		}
	}
	f := newFixture(t, api)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the console has followed the kubeconfig to another API server")
	}))
	defer other.Close()
	session := f.session()
	host := f.config.Host
	for _, step := range []struct {
		name           string
		config         rest.Config
		unreadable     error
		accepted       string
		body           string
		want, requests int
	}{
		{"refused from the start", rest.Config{Host: host, BearerToken: "of-the-kubeconfig"}, nil, "first", "", 401, 1},
		{"a new token", rest.Config{Host: host, BearerToken: "first"}, nil, "first", "", 200, 2},
		{"it has expired", rest.Config{Host: host, BearerToken: "first"}, nil, "second", "", 401, 1},
		{"the kubeconfig cannot be read", rest.Config{}, errors.New("no such file"), "second", "", 401, 1},
		{"another API server", rest.Config{Host: other.URL, BearerToken: "second"}, nil, "second", "", 401, 1},
		{"a write is not sent twice", rest.Config{Host: host, BearerToken: "second"}, nil, "second", "{}", 401, 1},
		{"the page sends it again", rest.Config{Host: host, BearerToken: "second"}, nil, "second", "{}", 200, 1},
	} {
		f.config, f.unreadable, accepted, requests = &step.config, step.unreadable, step.accepted, 0
		method := http.MethodGet
		if step.body != "" {
			method = http.MethodPost
		}
		answer := f.do(method, "/k8s/api", strings.NewReader(step.body), session...)
		if answer.StatusCode != step.want || requests != step.requests {
			t.Errorf("%s: %d after %d requests, want %d after %d", step.name, answer.StatusCode, requests, step.want, step.requests)
		}
		if answer.Header.Get("X-Console-Session") != "" {
			t.Errorf("%s: the page is told that its session has ended", step.name)
		}
	}
	if log := f.log.String(); strings.Contains(log, "first") || strings.Contains(log, "second") {
		t.Errorf("the log has a token:\n%s", log)
	}
}

// TestUnwantedUpgrade: an API server that changes the protocol without being asked does
// not get the browser's connection.
func TestUnwantedUpgrade(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = connection.Close() }()
		_, _ = connection.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>"))
	})
	if answer := f.overHTTP(t.Context()); answer.StatusCode != http.StatusBadGateway {
		t.Errorf("the browser gets %s", answer.Status)
	}
}
