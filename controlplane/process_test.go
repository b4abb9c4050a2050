package controlplane_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// processState is what belongs to the program.
type processState struct {
	log         *slog.Logger
	transport   http.RoundTripper
	verbose     bool
	gc          uint64
	environment string
	kernel      string // umask, and the signals that are caught or ignored; Linux only
}

var kernelLines = regexp.MustCompile(`(?m)^(Umask|SigIgn|SigCgt):.*$`)

func stateOfProcess() processState {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	status, _ := os.ReadFile("/proc/self/status") // only Linux has it
	environment := os.Environ()
	slices.Sort(environment)
	return processState{
		slog.Default(), http.DefaultTransport, bool(klog.V(1).Enabled()), sample[0].Value.Uint64(),
		strings.Join(environment, "\n"), strings.Join(kernelLines.FindAllString(string(status), -1), "\n"),
	}
}

// TestProcessBelongsToTheProgram: neither a start nor a stop changes what a process has once. Without a
// listener there is no URL.
func TestProcessBelongsToTheProgram(t *testing.T) {
	before := stateOfProcess()
	cp := start(t, controlplane.Options{})
	if during := stateOfProcess(); during != before {
		t.Errorf("after the start: %+v, before: %+v", during, before)
	}
	if cp.URL() != "" || cp.Kubeconfig() != "" {
		t.Errorf("without a listener it has the URL %q and the kubeconfig %q", cp.URL(), cp.Kubeconfig())
	}
	if err := cp.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-cp.Done()
	if err := cp.Err(); err != nil {
		t.Error(err)
	}
	if after := stateOfProcess(); after != before {
		t.Errorf("after the stop: %+v, before: %+v", after, before)
	}
}

// TestFatalErrorOfALibrary: klog.Fatal stops the control planes of the process, and not the
// process.
func TestFatalErrorOfALibrary(t *testing.T) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	t.Cleanup(func() { klog.LogToStderr(true) })
	var running []*controlplane.ControlPlane
	for range 2 {
		cp, err := controlplane.New(controlplane.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := cp.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		running = append(running, cp)
	}
	go klog.Exit("as klog.Fatal, without the stacks of all goroutines")
	for _, cp := range running {
		<-cp.Done()
		if err := cp.Err(); err == nil || !strings.Contains(err.Error(), "a Kubernetes component failed") {
			t.Errorf("it ended with %v", err)
		}
	}
}

// TestDoorsThatFail: a function of the program that panics, or does not return, costs its
// request.
func TestDoorsThatFail(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	panics := func(name string) {
		if name == "panics" {
			panic("a mistake in a function")
		}
	}
	summaries := controlplane.Kind[struct{}, struct{}]{
		Group: "sea.example.com", Version: "v1", Kind: "Summary", Name: "summaries",
		List: func(_ context.Context, _ *rest.Config, namespace string) ([]controlplane.Object[struct{}, struct{}], error) {
			panics(namespace)
			return nil, nil
		},
	}
	cp := start(t, controlplane.Options{
		Resources: []controlplane.Resource{summaries.Resource()},
		Admission: []controlplane.Admission{{
			Name: "careless", Operations: []admission.Operation{admission.Create, admission.Delete},
			Mutate: func(_ context.Context, a admission.Attributes) error {
				if a.GetName() == "new" {
					panics("panics")
				}
				return nil
			},
			Validate: func(_ context.Context, a admission.Attributes) error {
				if object, ok := a.GetOldObject().(metav1.Object); ok { // a collection has no name
					panics(object.GetName())
				}
				return nil
			},
		}},
		Handlers: map[string]http.Handler{
			"/panics": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panics("panics") }),
			"/hangs":  http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }),
		},
		TokenAuthenticators: []authenticator.Token{authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
			panics(token)
			return nil, false, nil
		})},
	})
	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "panics"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stranger := cp.RESTConfig()
	stranger.BearerToken, stranger.Impersonate = "panics", rest.ImpersonationConfig{}
	get := func(path string) error {
		return client.Discovery().RESTClient().Get().AbsPath(path).Timeout(time.Second).Do(t.Context()).Error()
	}
	for name, request := range map[string]func() error{
		"a creation": func() error {
			_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
			return err
		},
		"a deletion":   func() error { return maps.Delete(t.Context(), "panics", metav1.DeleteOptions{}) },
		"a collection": func() error { return maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}) },
		"a list":       func() error { return get("/apis/sea.example.com/v1/namespaces/panics/summaries") },
		"a path":       func() error { return get("/panics") },
		"a hang":       func() error { return get("/hangs") },
		"a token": func() error {
			_, err := kubernetes.NewForConfigOrDie(stranger).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			return err
		},
	} {
		if err := request(); err == nil {
			t.Errorf("%s: the request succeeded", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
		if _, err := maps.Get(t.Context(), "panics", metav1.GetOptions{}); err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
	}
}
