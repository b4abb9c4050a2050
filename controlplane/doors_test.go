package controlplane_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// TestUsers: an authenticator knows tokens, an authorizer decides before RBAC, middleware sees
// every request, and a handler gets authenticated and authorized ones.
func TestUsers(t *testing.T) {
	tokens := authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		if token != "letmein" {
			return nil, false, nil
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
	})
	rules := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "jane" && a.GetResource() != "secrets" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	cp := start(t, controlplane.Options{
		Config: freePort(), Listen: true,
		TokenAuthenticators: []authenticator.Token{tokens}, Authorizers: []authorizer.Authorizer{rules},
		Middleware: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Seen", "yes")
				next.ServeHTTP(w, r)
			})
		},
		Handlers: map[string]http.Handler{"/hello": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }),
			"/files/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })},
	})
	admin, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	jane := rest.AnonymousClientConfig(admin)
	jane.BearerToken = "letmein"
	client := kubernetes.NewForConfigOrDie(jane)
	if _, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("what the authorizer allows: %v", err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what nothing allows: %v", err)
	}
	if all, err := kubernetes.NewForConfigOrDie(cp.RESTConfigFor("")).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err == nil ||
		!strings.Contains(err.Error(), "RESTConfigFor got no user") {
		t.Errorf("requests of no user: %v, %v", all, err)
	}
	for audience, want := range map[string]bool{"": true, "elsewhere": false} {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "letmein"}}
		if audience != "" {
			review.Spec.Audiences = []string{audience}
		}
		reviewed, err := kubernetes.NewForConfigOrDie(cp.RESTConfig()).AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil || reviewed.Status.Authenticated != want || want && reviewed.Status.User.Username != "jane" {
			t.Errorf("a review of the token for the audience %q: %+v, %v", audience, reviewed.Status, err)
		}
	}
	var status int
	answer, err := client.Discovery().RESTClient().Get().AbsPath("/hello").Do(t.Context()).StatusCode(&status).Raw()
	if err != nil || string(answer) != "hello" {
		t.Errorf("the handler: %s, %v", answer, err)
	}
	for _, path := range []string{"/files/", "/files/a/b"} {
		if answer, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context()); err != nil || strings.Trim(string(answer), "/") != strings.Trim(path, "/") {
			t.Errorf("the handler of %s: %s, %v", path, answer, err)
		}
	}
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/hello/you").DoRaw(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("a path below that of a handler: %v", err)
	}
	unknown := rest.AnonymousClientConfig(admin)
	web, err := rest.HTTPClientFor(unknown)
	if err != nil {
		t.Fatal(err)
	}
	response, err := web.Get(admin.Host + "/hello")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // nothing is read
	if response.StatusCode != http.StatusUnauthorized || response.Header.Get("X-Seen") != "yes" {
		t.Errorf("a request without credentials: %s, %v", response.Status, response.Header)
	}
}

// freePort is a configuration with a free port.
func freePort() *config.ServerConfiguration {
	cfg := config.Default()
	cfg.Serving.Port = 0
	return cfg
}

// TestControllers: a controller runs while the control plane is ready, and its failure or panic
// ends the control plane with the reason.
func TestControllers(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(context.Context, *rest.Config) error
		want string
	}{
		"stopped": {func(ctx context.Context, client *rest.Config) error {
			_, err := kubernetes.NewForConfigOrDie(client).CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
			<-ctx.Done()
			return err
		}, ""},
		"fails":  {func(context.Context, *rest.Config) error { return errors.New("no luck") }, "the controller c failed: no luck"},
		"panics": {func(context.Context, *rest.Config) error { panic("oops") }, "panicked: oops"},
	} {
		t.Run(name, func(t *testing.T) {
			cp, err := controlplane.New(controlplane.Options{Controllers: []controlplane.Controller{{Name: "c", Run: c.run}}})
			if err != nil {
				t.Fatal(err)
			}
			err = cp.Start(t.Context())
			if c.want == "" {
				if err = errors.Join(err, cp.Stop(context.Background())); err != nil {
					t.Error(err)
				}
				return
			}
			<-cp.Done()
			if failure := cp.Err(); failure == nil || !strings.Contains(failure.Error(), c.want) {
				t.Errorf("it ended with %v (start: %v), want %q", failure, err, c.want)
			}
		})
	}
}

// TestWhileServingThatPanics: it ends its control plane, not the process.
func TestWhileServingThatPanics(t *testing.T) {
	cp, err := controlplane.New(controlplane.Options{WhileServing: func(context.Context, func()) error { panic("oops") }})
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "panicked: oops") {
		t.Errorf("the start: %v", err)
	}
}

// TestOptionsThatContradict: New names each mistake. Feature gates are those of the first
// control plane of the process.
func TestOptionsThatContradict(t *testing.T) {
	if _, err := controlplane.New(controlplane.Options{}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	noDot := boats()
	noDot.Group = "sea"
	ofKubernetes := boats()
	ofKubernetes.Group = "apps.k8s.io"
	wrongPort := withGate("WatchList") // which the process has not, and which sets none
	wrongPort.Serving.Port = 70000
	label := controlplane.Admission{Name: "label", Mutate: func(context.Context, admission.Attributes) error { return nil }}
	pump := controlplane.Controller{Name: "pump", Run: func(context.Context, *rest.Config) error { return nil }}
	for want, options := range map[string]controlplane.Options{
		"exclude each other":                    {Listener: listener, Listen: true},
		"has no dot":                            {Resources: []controlplane.Resource{noDot}},
		"is one of Kubernetes":                  {Resources: []controlplane.Resource{ofKubernetes}},
		"is there twice":                        {Resources: []controlplane.Resource{boats(), boats()}},
		`Admission: "label" is there twice`:     {Admission: []controlplane.Admission{label, label}},
		`Controllers: "pump" is there twice`:    {Controllers: []controlplane.Controller{pump, pump}},
		"NewList is nil":                        {Resources: []controlplane.Resource{{Group: "a.b", Version: "v1", Kind: "C", New: boats().New}}},
		"has no function":                       {Admission: []controlplane.Admission{{Name: "x"}}},
		"needs Name and Run":                    {Controllers: []controlplane.Controller{{Name: "x"}}},
		`the path "/api" is the`:                {Handlers: map[string]http.Handler{"/api": http.NotFoundHandler()}},
		"serving.port":                          {Config: wrongPort},
		"differ from those of the first server": {Config: withGate("WatchList")},
		"is not a part":                         {Part: "scheduler"},
		"runs no Options.Controllers":           {Part: controlplane.OnlyAPIServer, Controllers: []controlplane.Controller{pump}},
		"serves no API":                         {Part: controlplane.OnlyEtcd, Listen: true},
		"is nil":                                {Authorizers: []authorizer.Authorizer{nil}},
	} {
		if _, err := controlplane.New(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New returned %v, want %q", err, want)
		}
	}
}

func withGate(name string) *config.ServerConfiguration {
	cfg := config.Default()
	cfg.APIServer.FeatureGates = map[string]bool{name: true}
	return cfg
}

// TestMutatingPolicy: a policy that mutates is in force, although the program has requested no
// OpenAPI document; after the next start also for the program's manifests.
func TestMutatingPolicy(t *testing.T) {
	const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"seen": "yes"}}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: label}
spec: {policyName: label}
`
	dir := t.TempDir()
	cp := start(t, controlplane.Options{Dir: dir})
	for i, text := range strings.Split(policy, "---") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		resource := admissionregistrationv1.SchemeGroupVersion.WithResource([]string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}[i])
		if _, err := dynamic.NewForConfigOrDie(cp.RESTConfig()).Resource(resource).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	maps := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoreV1().ConfigMaps("default")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		created, err := maps.Create(ctx, object, metav1.CreateOptions{})
		return err == nil && created.Labels["seen"] == "yes", nil
	})
	if err != nil {
		t.Error("no created config map had the label of the policy")
	}
	if err := cp.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	manifest := "{apiVersion: v1, kind: ConfigMap, metadata: {name: later, namespace: default}}"
	cp = start(t, controlplane.Options{Dir: dir, Manifests: fstest.MapFS{"later.yaml": {Data: []byte(manifest)}}})
	later, err := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoreV1().ConfigMaps("default").Get(t.Context(), "later", metav1.GetOptions{})
	if err != nil || later.Labels["seen"] != "yes" {
		t.Errorf("the config map of the manifests has the labels %v, %v", later.Labels, err)
	}
}

// TestGroupOfACRD: a group has types of the program or CRDs, not both.
func TestGroupOfACRD(t *testing.T) {
	dir := t.TempDir()
	crd := strings.ReplaceAll(widgets, "example.com", "sea.example.com")
	first := start(t, controlplane.Options{Dir: dir, Manifests: fstest.MapFS{"crd.yaml": {Data: []byte(crd)}}})
	if err := first.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	second, err := controlplane.New(controlplane.Options{Dir: dir, Resources: []controlplane.Resource{boats()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "the CRD widgets.sea.example.com is in the group") {
		t.Errorf("a start with a group that a CRD has: %v", err)
	}
	parent := controlplane.Kind[BoatSpec, BoatStatus]{Group: "example.com", Version: "v1", Kind: "Boat"}.Resource()
	if err := start(t, controlplane.Options{Dir: dir, Resources: []controlplane.Resource{parent}}).Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	third := start(t, controlplane.Options{Resources: []controlplane.Resource{boats()}})
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(crd), &object.Object); err != nil {
		t.Fatal(err)
	}
	crds := dynamic.NewForConfigOrDie(third.RESTConfig()).Resource(crdResource)
	if _, err := crds.Create(t.Context(), object, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a CRD in a group of the program: %v", err)
	}
}
