package aggregation

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/spdy"
	wstransport "k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	spdystream "k8s.io/streaming/pkg/httpstream/spdy"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const (
	proxiedGroup = "proxied.example.com"
	thingPath    = "/apis/" + proxiedGroup + "/v1alpha1/namespaces/default/things/one"
)

// echoServer is a remote API server whose subresources speak websocket and
// SPDY, redirect, and answer with the headers of the request.
type echoServer struct {
	elsewhere string
	frontCA   *x509.CertPool

	mu   sync.Mutex
	seen http.Header
}

func (s *echoServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/apis/"+proxiedGroup+"/v1alpha1", discovery(proxiedGroup))
	mux.HandleFunc(thingPath+"/websocket", s.trusted(func(w http.ResponseWriter, r *http.Request) {
		connection, err := (&websocket.Upgrader{Subprotocols: []string{protocol}}).Upgrade(w, r, nil)
		if err != nil {
			return // the upgrade has failed and was answered
		}
		defer func() { _ = connection.Close() }() // the client has its answer
		if kind, message, err := connection.ReadMessage(); err == nil {
			_ = connection.WriteMessage(kind, append([]byte("echo: "), message...)) // the client notices an incomplete response
		}
	}))
	mux.HandleFunc(thingPath+"/spdy", s.trusted(func(w http.ResponseWriter, r *http.Request) {
		connection := spdystream.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
			go func() {
				_, _ = io.Copy(stream, io.MultiReader(strings.NewReader("echo: "), stream)) // as above
				_ = stream.Close()
			}()
			return nil
		})
		if connection != nil {
			<-connection.CloseChan()
		}
	}))
	mux.HandleFunc(thingPath+"/redirect", s.trusted(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.elsewhere, http.StatusFound)
	}))
	return mux
}

// trusted admits only clients with a certificate of the front proxy, as every
// extension server does, and records the headers.
func (s *echoServer) trusted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "no client certificate", http.StatusUnauthorized)
			return
		}
		options := x509.VerifyOptions{Roots: s.frontCA, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if _, err := r.TLS.PeerCertificates[0].Verify(options); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		s.mu.Lock()
		s.seen = r.Header.Clone()
		s.mu.Unlock()
		next(w, r)
	}
}

// identity returns the user in the headers of the last request.
func (s *echoServer) identity() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	extra := s.seen["X-Remote-Extra-Example.com%2fteam"]
	return fmt.Sprintf("%s %s %v %v", s.seen.Get("X-Remote-User"), s.seen.Get("X-Remote-Uid"), s.seen["X-Remote-Group"], extra)
}

const janesIdentity = "jane u-1 [crew system:authenticated] [red blue]"

// TestProxiedRequests upgrades connections to an aggregated server as an
// impersonated user, and looks for them in the audit log.
func TestProxiedRequests(t *testing.T) {
	t.Parallel()
	auditLog := filepath.Join(t.TempDir(), "audit.log")
	e := newEnvironment(t, "--config", auditedConfig(t, auditLog))
	var visited atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited.Add(1) }))
	t.Cleanup(elsewhere.Close)
	server := &echoServer{elsewhere: elsewhere.URL, frontCA: e.frontProxyCA()}
	ca := newAuthority(t)
	e.endpoint("proxied", "api", serveAskingForCertificates(t, ca.keyPair(t, "api.proxied.svc"), server.handler()))
	e.apiService(proxiedGroup, "proxied", "api", ca.bundle)
	e.waitAvailable(proxiedGroup, "True", "Passed")
	e.allowCrew(rbacv1.PolicyRule{APIGroups: []string{proxiedGroup}, Resources: []string{"things/websocket", "things/spdy", "things/redirect"}, Verbs: []string{"get", "create"}})
	jane := e.RESTConfig()
	jane.Impersonate = rest.ImpersonationConfig{UserName: "jane", UID: "u-1", Groups: []string{"crew"}, Extra: map[string][]string{"example.com/team": {"red", "blue"}}}
	harness.Eventually(t, "the role counts", func() error { return speakWebsocket(t.Context(), jane) })

	for name, speak := range map[string]func(context.Context, *rest.Config) error{"websocket": speakWebsocket, "spdy": speakSPDY} {
		t.Run(name, func(t *testing.T) {
			if err := speak(t.Context(), jane); err != nil {
				t.Fatal(err)
			}
			if got := server.identity(); got != janesIdentity {
				t.Errorf("what has arrived: %s", got)
			}
			audited(t, auditLog, name, http.StatusSwitchingProtocols)
		})
	}
	t.Run("redirect", func(t *testing.T) {
		client, err := rest.HTTPClientFor(jane)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(jane.Host + thingPath + "/redirect")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusBadGateway || !strings.Contains(string(body), "redirect") {
			t.Errorf("the client got %s: %s", response.Status, body)
		}
		audited(t, auditLog, "redirect", http.StatusBadGateway)
		if visited.Load() != 0 {
			t.Error("the redirect was followed")
		}
	})
	t.Run("without rights", func(t *testing.T) {
		if err := speakWebsocket(t.Context(), e.as("joe")); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("a user without rights gets: %v", err)
		}
	})
}

// auditedConfig is a configuration with an audit log.
func auditedConfig(t *testing.T, auditLog string) string {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	harness.WriteFile(t, policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n")
	return harness.ConfigFile(t, "apiServer: {audit: {policyFile: "+policy+", logPath: "+auditLog+"}}\n")
}

// audited waits for the audit event of a request to a subresource of
// things/one, with user, impersonated user, URI and status code.
func audited(t *testing.T, path, subresource string, code int32) {
	t.Helper()
	harness.Eventually(t, "the audit log has the request for "+subresource, func() error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was read
		var last error = fmt.Errorf("no event")
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var event auditv1.Event
			if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
				last = err // the end of what is being written
				continue
			}
			if event.ObjectRef == nil || event.ObjectRef.APIGroup != proxiedGroup || event.ObjectRef.Subresource != subresource || event.ResponseStatus == nil {
				continue
			}
			if event.ResponseStatus.Code == code && isJanes(&event) {
				return nil
			}
			last = fmt.Errorf("the event is %s", lines.Text())
		}
		return last
	})
}

// isJanes reports whether the administrator has made the request as jane.
func isJanes(event *auditv1.Event) bool {
	as := event.ImpersonatedUser
	return slices.Contains(event.User.Groups, "system:masters") && as != nil && as.Username == "jane" && as.UID == "u-1" &&
		slices.Contains(as.Groups, "crew") && slices.Equal(as.Extra["example.com/team"], []string{"red", "blue"}) &&
		event.ObjectRef.Resource == "things" && event.ObjectRef.Name == "one"
}

// frontProxyCA returns the CA that the server publishes for extension servers.
func (e *environment) frontProxyCA() *x509.CertPool {
	e.t.Helper()
	var published *corev1.ConfigMap
	harness.Eventually(e.t, "the authorities are published", func() (err error) {
		published, err = e.Client().CoreV1().ConfigMaps("kube-system").Get(e.t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		return err
	})
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(published.Data["requestheader-client-ca-file"])) {
		e.t.Fatalf("no CA of the front proxy in %v", published.Data)
	}
	return pool
}

// allowCrew gives the group crew a right everywhere.
func (e *environment) allowCrew(allowed rbacv1.PolicyRule) {
	e.t.Helper()
	name := unique("crew")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{allowed}}
	if _, err := e.Client().RbacV1().ClusterRoles().Create(e.t.Context(), role, metav1.CreateOptions{}); err != nil {
		e.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "crew"}},
	}
	if _, err := e.Client().RbacV1().ClusterRoleBindings().Create(e.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// serveAskingForCertificates is serve for a server that requests client
// certificates. Upgrades need HTTP/1.1.
func serveAskingForCertificates(t *testing.T, certificate tls.Certificate, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the client reports the error
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

const (
	greeting = "hello"
	protocol = "v5.channel.k8s.io" // what kubectl exec speaks over websocket
)

func speakWebsocket(ctx context.Context, config *rest.Config) error {
	roundTripper, holder, err := wstransport.RoundTripperFor(config)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+thingPath+"/websocket", nil)
	if err != nil {
		return err
	}
	connection, err := wstransport.Negotiate(roundTripper, holder, request, protocol)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }() // there is nothing more to say
	if err := connection.WriteMessage(websocket.TextMessage, []byte(greeting)); err != nil {
		return err
	}
	_, answer, err := connection.ReadMessage()
	return understood(string(answer), err)
}

func speakSPDY(_ context.Context, config *rest.Config) error {
	roundTripper, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return err
	}
	location, err := url.Parse(config.Host + thingPath + "/spdy")
	if err != nil {
		return err
	}
	connection, _, err := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, location).Dial()
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }() // there is nothing more to say
	stream, err := connection.CreateStream(http.Header{})
	if err != nil {
		return err
	}
	if _, err = io.WriteString(stream, greeting); err == nil {
		err = stream.Close() // this direction
	}
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(stream)
	return understood(string(answer), err)
}

func understood(answer string, err error) error {
	if err == nil && answer != "echo: "+greeting {
		err = fmt.Errorf("the answer is %q", answer)
	}
	return err
}
