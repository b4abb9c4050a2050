package planes

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// twins are two control planes with the same names: of types, in other versions, and of objects.
type twins struct {
	*testHost
	clients  map[string]kubernetes.Interface
	dynamics map[string]dynamic.Interface
	widgets  map[string]schema.GroupVersionResource
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	w := &twins{newHost(t), map[string]kubernetes.Interface{}, map[string]dynamic.Interface{}, map[string]schema.GroupVersionResource{}}
	for name, version := range map[string]string{"acme": "v1", "beta": "v2"} {
		w.clients[name] = w.create(t, name, nil)
		createWidgets(t, w.configOf(name), version)
		w.dynamics[name] = newDynamic(t, w.configOf(name))
		w.widgets[name] = schema.GroupVersionResource{Group: widgets.Group, Version: version, Resource: widgets.Resource}
		for i := range 5 {
			o := &unstructured.Unstructured{Object: map[string]any{"owner": name}}
			o.SetAPIVersion(w.widgets[name].GroupVersion().String())
			o.SetKind("Widget")
			o.SetName(fmt.Sprintf("w-%d", i))
			if _, err := w.dynamics[name].Resource(w.widgets[name]).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// get returns the status and the body of the answer to a request of the host's administrator.
func (h *testHost) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	return h.do(t, http.MethodGet, path)
}

// do is get with another method.
func (h *testHost) do(t *testing.T, method, path string) (status int, body string) {
	t.Helper()
	client, err := rest.HTTPClientFor(h.config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, h.config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// TestTwins: what one of two control planes with the same names has is not seen in the other one
// or in the host, also with its continue tokens and resourceVersions.
func TestTwins(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	others := map[string]string{"acme": "beta", "beta": "acme"}
	for name, other := range others {
		own, theirs := w.widgets[name], w.widgets[other]
		page, err := w.dynamics[other].Resource(theirs).List(t.Context(), metav1.ListOptions{Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		base := prefix + name + "/apis/example.com/" + own.Version
		for path, has := range map[string]bool{
			base + "/widgets": true,
			base + "/widgets?continue=" + page.GetContinue():                                           false,
			base + "/widgets?resourceVersion=" + page.GetResourceVersion():                             false,
			base + "/widgets?watch=true&timeoutSeconds=1&resourceVersion=" + page.GetResourceVersion(): false,
			base + "/namespaces/default/widgets/w-1":                                                   true,
			prefix + other + "/apis/example.com/" + own.Version + "/widgets":                           false,
			"/apis/example.com/" + own.Version + "/widgets":                                            false,
		} {
			_, body := w.get(t, path)
			if strings.Contains(body, `"owner":"`+other+`"`) {
				t.Errorf("%s has an object of %s: %s", path, other, body)
			}
			if has && !strings.Contains(body, `"owner":"`+name+`"`) {
				t.Errorf("%s has no object of %s: %s", path, name, body)
			}
		}
		for _, path := range []string{"/apis", "/apis/example.com", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/example.com/" + own.Version} {
			_, body := w.get(t, prefix+name+path)
			if strings.Contains(body, "example.com/"+theirs.Version) || !strings.Contains(body, "example.com") {
				t.Errorf("%s of %s does not have its version only", path, name)
			}
			if _, body := w.get(t, path); strings.Contains(body, "example.com/"+own.Version) && !strings.Contains(body, `"status":"Failure"`) {
				t.Errorf("%s of the host has the type of %s", path, name)
			}
		}
	}
}

// TestImpersonation: the users that a request to a control plane impersonates are those of the
// control plane, and the host is not asked as them.
func TestImpersonation(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	host := newClient(t, h.config)
	h.create(t, "acme", nil)
	acme := h.client(t, "acme")
	as := func(credentials func(*rest.Config)) func(*rest.Config) {
		return func(c *rest.Config) {
			credentials(c)
			c.Impersonate = rest.ImpersonationConfig{UserName: "admin", Groups: []string{"system:masters"}}
		}
	}
	for who, test := range map[string]struct {
		credentials func(*rest.Config)
		name, want  string
	}{
		"the host's administrator":         {as(h.administrator), "acme", "admin"},
		"a service account of the host":    {as(token(t, host)), "acme", ""},
		"a service account of acme":        {as(token(t, acme)), "acme", ""},
		"a service account of acme, there": {as(token(t, acme)), "", ""},
		"acme's administrator, there":      {as(h.adminOf(t, "acme")), "", ""},
	} {
		if got := whoAmI(t, h.with(t, test.name, test.credentials)); got != test.want {
			t.Errorf("%s is %q, want %q", who, got, test.want)
		}
	}
}

// TestReferences: a reference to a service reaches what the ServiceEndpoint of the same control
// plane says.
func TestReferences(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	calls := map[string]*atomic.Int32{}
	for name := range w.clients {
		calls[name] = &atomic.Int32{}
		server, authority := newWebhook(t, "hook.default.svc", func() { calls[name].Add(1) })
		endpoint := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kube-hyper-mini.io/v1alpha1", "kind": "ServiceEndpoint", "metadata": map[string]any{"name": "hook"},
			"spec": map[string]any{"targets": []any{server.URL}},
		}}
		endpoints := schema.GroupVersionResource{Group: "kube-hyper-mini.io", Version: "v1alpha1", Resource: "serviceendpoints"}
		if _, err := w.dynamics[name].Resource(endpoints).Namespace("default").Create(t.Context(), endpoint, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
		hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "hook"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "hook.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					CABundle: authority, Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hook"},
				},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
				}},
			}},
		}
		if _, err := w.clients[name].AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), hook, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, other := range map[string]string{"acme": "beta", "beta": "acme"} {
		calls["acme"].Store(0)
		calls["beta"].Store(0)
		eventually(t, "the webhook of "+name+" is called", func() bool {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}
			_, err := w.clients[name].CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{})
			return err != nil && calls[name].Load() > 0
		})
		if calls[other].Load() > 0 {
			t.Errorf("a request to %s called the webhook of %s", name, other)
		}
	}
}

// newWebhook starts a server that refuses all reviews. It returns its certificate, too.
func newWebhook(t *testing.T, host string, called func()) (server *httptest.Server, certificate []byte) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			called()
		}
		http.Error(w, "no", http.StatusTeapot)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, certificate
}
