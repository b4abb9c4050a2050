package planes

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// with returns a client of a control plane, or of the host if name is empty, with other
// credentials.
func (h *testHost) with(t *testing.T, name string, credentials func(*rest.Config)) kubernetes.Interface {
	t.Helper()
	config := rest.AnonymousClientConfig(h.config)
	if name != "" {
		config.Host += prefix + name
	}
	credentials(config)
	return newClient(t, config)
}

// administrator are the credentials of the host's administrator.
func (h *testHost) administrator(c *rest.Config) { c.TLSClientConfig = h.config.TLSClientConfig }

// whoAmI returns the user that the server sees, and "" if it refuses the credentials.
func whoAmI(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
		return ""
	case err != nil:
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username
}

// token makes a token of the service account default in the namespace default.
func token(t *testing.T, client kubernetes.Interface) func(*rest.Config) {
	t.Helper()
	return tokenIn(t, client, "default")
}

// tokenIn makes a token of the service account default in the namespace.
func tokenIn(t *testing.T, client kubernetes.Interface, namespace string) func(*rest.Config) {
	t.Helper()
	eventually(t, "the controller has made the account", func() bool {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	request, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *rest.Config) { c.BearerToken = request.Status.Token }
}

// adminOf reads the certificate of a control plane's own administrator.
func (h *testHost) adminOf(t *testing.T, name string) func(*rest.Config) {
	t.Helper()
	p := h.known(t, name)
	data := map[string][]byte{}
	for _, file := range []string{"admin.crt", "admin.key"} {
		var err error
		if data[file], err = os.ReadFile(filepath.Join(p.dir(), "pki", file)); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *rest.Config) { c.CertData, c.KeyData = data["admin.crt"], data["admin.key"] }
}

// TestCredentialsOfOthers: a control plane accepts its own credentials and those of the host's
// users who may administer it, and no others; the host accepts none of a control plane.
func TestCredentialsOfOthers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	own := newClient(t, h.config)
	acme, beta := h.create(t, "acme", nil), h.create(t, "beta", nil)
	for who, test := range map[string]struct {
		credentials      func(*rest.Config)
		host, acme, beta string
	}{
		"nobody":                   {func(*rest.Config) {}, "", "", ""},
		"a token of acme":          {token(t, acme), "", "system:serviceaccount:default:default", ""},
		"a token of beta":          {token(t, beta), "", "", "system:serviceaccount:default:default"},
		"a token of the host":      {token(t, own), "system:serviceaccount:default:default", "", ""},
		"acme's own administrator": {h.adminOf(t, "acme"), "", "admin", ""},
		"the host's administrator": {h.administrator, "admin", "host:admin", "host:admin"},
		"headers of a proxy": {func(c *rest.Config) {
			c.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					r.Header.Set("X-Remote-User", "admin")
					r.Header.Set("X-Remote-Group", "system:masters")
					return next.RoundTrip(r)
				})
			})
		}, "", "", ""},
	} {
		for name, want := range map[string]string{"": test.host, "acme": test.acme, "beta": test.beta} {
			if got := whoAmI(t, h.with(t, name, test.credentials)); got != want {
				t.Errorf("%s is %q for %q, want %q", who, got, name, want)
			}
		}
	}
}

// TestRevokedAdministrator: the watches of a control plane that a user of the host has opened end
// when the host does not accept the user's certificate any more.
func TestRevokedAdministrator(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	acme := h.create(t, "acme", nil)
	opened := watchMaps(t, acme.CoreV1().ConfigMaps(""), metav1.ListOptions{})
	p := h.known(t, "acme")
	h.administrators.endUntrusted(t.Context())
	if h.watches(t, "acme") != 1 {
		t.Error("the watch of a user whose certificate is valid has ended")
	}
	revoked := newAdministrators(&Manager{planes: map[string]*plane{"acme": p}})
	revoked.users = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("the key of the client certificate has been revoked")
	})
	revoked.accepted = h.administrators.accepted
	revoked.endUntrusted(t.Context())
	for range opened.ResultChan() { // until it ends
	}
}

// TestAuthorizerOfTheHostThatFails: it allows nothing, and its answer is kept.
func TestAuthorizerOfTheHostThatFails(t *testing.T) {
	t.Parallel()
	asked, a := 0, newAdministrators(&Manager{})
	a.use(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
	}), authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		asked++
		return authorizer.DecisionNoOpinion, "", errors.New("connection refused")
	}))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil)
	r.Header.Set("Authorization", "Bearer token")
	for range 2 {
		if name, err := a.may(r, authorizer.AttributesRecord{Verb: "update", Name: "acme"}); name != "" || err != nil {
			t.Errorf("allowed to %q, %v", name, err)
		}
	}
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

// TestWebhookOfTheHost: a webhook of the host for all types, whose server does not answer, locks no
// administrator out of control planes.
func TestWebhookOfTheHost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	own := newClient(t, h.config)
	acme := h.create(t, "acme", nil)
	opened := watchMaps(t, acme.CoreV1().ConfigMaps(""), metav1.ListOptions{})
	account := token(t, own)
	grant(t, own, rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{Resource.Group}, Resources: []string{"controlplanes/admin"}},
		rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "default"})
	addWebhook(t, own, "https://127.0.0.1:1/", admissionv1.OperationAll, admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}})
	eventually(t, "the host calls the webhook", func() bool {
		_, err := own.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err != nil
	})
	if _, err := h.with(t, "acme", account).CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("an administrator gets %v", err)
	}
	h.administrators.endUntrusted(t.Context())
	addMap(t, acme, "one")
	if event := <-opened.ResultChan(); event.Type != watch.Added {
		t.Errorf("the watch of an administrator has ended: %v", event)
	}
}

// addWebhook has the server ask a webhook about all such requests, for 30 seconds at most.
func addWebhook(t *testing.T, client kubernetes.Interface, url string, operation admissionv1.OperationType, rule admissionv1.Rule) {
	t.Helper()
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "test"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "test.example.com", SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(30)),
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
			Rules:        []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{operation}, Rule: rule}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// roundTripper is a function as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// grant lets the subjects do what the rule says.
func grant(t *testing.T, client kubernetes.Interface, rule rbacv1.PolicyRule, subjects ...rbacv1.Subject) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: []rbacv1.PolicyRule{rule}}
	role, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestAdministrators: RBAC of the host says who administers a control plane.
func TestAdministrators(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	own := newClient(t, h.config)
	h.create(t, "acme", nil)
	h.create(t, "beta", nil)
	credentials := token(t, own)
	grant(t, own, rbacv1.PolicyRule{APIGroups: []string{Resource.Group}, Resources: []string{"controlplanes/admin"}, Verbs: []string{"update"}, ResourceNames: []string{"acme"}},
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"})
	acme := h.with(t, "acme", credentials)
	eventually(t, "the host has seen the binding", func() bool { return whoAmI(t, acme) != "" })
	if _, err := acme.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if user := whoAmI(t, h.with(t, "beta", credentials)); user != "" {
		t.Errorf("it is %s in another control plane", user)
	}
}

// TestPaths: only /clusters/NAME/ leads to a control plane.
func TestPaths(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.create(t, "acme", nil)
	for path, want := range map[string]int{
		"/clusters/acme":                                   http.StatusOK,
		"/clusters/acme/api/v1/namespaces":                 http.StatusOK,
		"/clusters/none/api":                               http.StatusNotFound,
		"/clusters/":                                       http.StatusNotFound,
		"/clusters//api":                                   http.StatusNotFound,
		"/clusters/%61cme/api":                             http.StatusNotFound,
		"/clusters/acme%2Fapi":                             http.StatusNotFound,
		"/clusters/ACME/api":                               http.StatusNotFound,
		"/clusters/../acme/api":                            http.StatusNotFound,
		"/clusters/%2e%2e/api":                             http.StatusNotFound,
		"/clusters/acme/../beta/api":                       http.StatusNotFound,
		"/clusters/acme/%2e%2e/%2e%2e/api/v1/namespaces":   http.StatusNotFound,
		"/clusters/acme/clusters/acme/api":                 http.StatusNotFound,
		"/clusters/acme/api/v1/namespaces/kube-system%2Fx": http.StatusNotFound,
	} {
		if status, _ := h.get(t, path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

// TestLifeOfAControlPlane: a wrong name is refused, a copy has the objects and credentials of
// its own, and a deletion removes everything.
func TestLifeOfAControlPlane(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if err := h.tryCreate(t.Context(), "a.b", nil); err == nil || !strings.Contains(err.Error(), "part of the URL") {
		t.Error(err)
	}
	acme := h.create(t, "acme", nil)
	addMap(t, acme, "one")
	credentials := h.adminOf(t, "acme")
	copied := h.create(t, "copy", map[string]any{"from": map[string]any{"controlPlane": "acme"}})
	if _, err := copied.CoreV1().ConfigMaps("default").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if user := whoAmI(t, h.with(t, "copy", credentials)); user != "" {
		t.Errorf("the administrator of the origin is %s in the copy", user)
	}
	h.create(t, "brief", map[string]any{"lifetime": "1s"})
	for _, name := range []string{"copy", "brief"} {
		if err := h.objects.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		h.awaitGone(t, name)
		if entries, err := filepath.Glob(filepath.Join(h.dir(), "*"+name)); err != nil || len(entries) > 0 {
			t.Errorf("%v is left: %v", entries, err)
		}
	}
	if _, err := copied.CoreV1().ConfigMaps("default").Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the deleted control plane answers %v", err)
	}
}

// awaitGone waits until the ControlPlane does not exist.
func (h *testHost) awaitGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "it is gone", func() bool {
		_, err := h.objects.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err != nil
	})
}

// TestDamageOfOne: a control plane that does not start says why, and the others serve.
func TestDamageOfOne(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	acme, beta := h.create(t, "acme", nil), h.create(t, "beta", nil)
	for _, client := range []kubernetes.Interface{acme, beta} {
		addMap(t, client, "one")
	}
	h.sleepNow(t, "acme")
	anonymous := h.with(t, "acme", func(*rest.Config) {})
	if _, err := anonymous.Discovery().ServerVersion(); !apierrors.IsUnauthorized(err) {
		t.Errorf("a request without credentials gets %v", err)
	}
	dir := filepath.Join(h.dir(), "acme")
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	_, err := acme.CoreV1().ConfigMaps("default").Get(context.Background(), "one", metav1.GetOptions{})
	if err == nil || !strings.Contains(err.Error(), "is missing: put it back") {
		t.Errorf("it answers %v", err)
	}
	h.await(t, "acme", func(o *object) bool { return o.Status.Phase == phaseFailed && o.Status.Message != "" })
	if _, err := beta.CoreV1().ConfigMaps("default").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := os.Rename(dir+".moved", dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the failure is forgotten", func() bool {
		_, err := acme.CoreV1().ConfigMaps("default").Get(t.Context(), "one", metav1.GetOptions{})
		if err != nil && !apierrors.IsServiceUnavailable(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// TestMetricsOfOthers: the metrics of a control plane have its own types and objects only, and nobody
// resets those of the process there, or sees its profiles.
func TestMetricsOfOthers(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	const ofBeta, requests = `group="example.com",resource="widgets",scope="resource",subresource="",verb="POST",version="v2"`, "apiserver_request_total{"
	for name, path := range map[string]string{"the host": "", "acme": "/clusters/acme"} {
		status, page := w.get(t, path+"/metrics")
		if status != http.StatusOK || !strings.Contains(page, "kube_hyper_mini_ready 1") {
			t.Errorf("%s: %d:\n%s", name, status, page)
		}
		if path == "" && !strings.Contains(page, ofBeta) {
			t.Errorf("the metrics of the process lack those of beta:\n%s", page)
		}
		if path != "" && (strings.Contains(page, `"v2"`) || strings.Contains(page, requests)) {
			t.Errorf("the metrics of acme have those of others:\n%s", page)
		}
	}
	w.do(t, http.MethodDelete, "/clusters/acme/metrics")
	if _, page := w.get(t, "/metrics"); !strings.Contains(page, ofBeta) {
		t.Error("acme has reset the metrics of the host")
	}
	for _, path := range []string{"/debug/pprof/", "/debug/flags/v"} {
		if status, _ := w.get(t, "/clusters/acme"+path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}
