package apiserver

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// TestWebhookAnswers: an answer that does not end fails before it fills the memory, and a
// redirect leads to no other host.
func TestWebhookAnswers(t *testing.T) {
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for chunk := make([]byte, 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/converted":
			body, err := io.ReadAll(r.Body)
			for range 3 {
				_, _ = w.Write(body)
			}
			if err != nil {
				t.Error(err)
			}
		case "/slash":
			http.Redirect(w, r, "/slash/", http.StatusTemporaryRedirect)
		case "/elsewhere":
			http.Redirect(w, r, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)+"/ok", http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	shared := &rest.Config{Host: server.URL}
	clients := limitAnswers(&webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc:        func(string) (*rest.Config, error) { return shared, nil },
		ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return shared, nil },
	})
	for path, test := range map[string]struct {
		request int
		want    string // in the error; "" for none
	}{
		"/endless":   {0, "more than"},
		"/converted": {minAnswer, ""},
		"/slash":     {1, ""},
		"/elsewhere": {1, "redirects to another host, localhost"},
	} {
		for kind, get := range map[string]func() (*rest.Config, error){
			"url":     func() (*rest.Config, error) { return clients.ClientConfigFor("host:443") },
			"service": func() (*rest.Config, error) { return clients.ClientConfigForService("name", "namespace", 443) },
		} {
			config, err := get()
			if err != nil {
				t.Fatal(err)
			}
			err = post(config, path, test.request)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%s by %s: %v, want %q", path, kind, err, test.want)
			}
		}
	}
	if shared.WrapTransport != nil {
		t.Error("the configuration of another client is changed")
	}
}

// post sends a request of the size and reads the whole answer.
func post(config *rest.Config, path string, size int) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	answer, err := client.Post(config.Host+path, "application/json", bytes.NewReader(make([]byte, size)))
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// caller is an admission plugin that calls webhooks.
type caller struct {
	admission.Interface
	wrapper webhook.AuthenticationInfoResolverWrapper
}

func (c *caller) SetAuthenticationInfoResolverWrapper(wrapper webhook.AuthenticationInfoResolverWrapper) {
	c.wrapper = wrapper
}

func (c *caller) ValidateInitialization() error { return nil }

func TestPluginsHaveLimitedAnswers(t *testing.T) {
	options, plugin := genericoptions.NewAdmissionOptions(), &caller{}
	kube.WrapWebhookClients(options, limitAnswers)
	options.Decorators.Decorate(plugin, "ValidatingAdmissionWebhook")
	if plugin.wrapper == nil {
		t.Error("the plugin keeps its clients")
	}
}
