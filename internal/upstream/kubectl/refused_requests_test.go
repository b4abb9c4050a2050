package kubectl_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kubectl"
)

// refusing is an [http.RoundTripper] that fails.
type refusing struct{ cause error }

// RoundTrip implements [http.RoundTripper].
func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.cause }

// TestDemoteErrors: what clients log about a refused request is shown at verbosity 1 only,
// other errors always.
func TestDemoteErrors(t *testing.T) {
	cause := errors.New("no server here")
	handlers := slices.Clone(utilruntime.ErrorHandlers)
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	kubectl.DemoteErrors(cause)
	for verbosity, wants := range [][2]bool{{false, true}, {true, true}} {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(verbosity)))
		klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
		t.Cleanup(klog.ClearLogger)
		config := &rest.Config{Host: "https://127.0.0.1:1"}
		config.Wrap(func(http.RoundTripper) http.RoundTripper { return refusing{cause} })
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := memory.NewMemCacheClient(client).ServerGroupsAndResources(); err == nil {
			t.Fatal("the request is not refused")
		}
		utilruntime.HandleError(errors.New("another error"))
		log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		for i, text := range []string{cause.Error(), "another error"} {
			if strings.Contains(log, text) != wants[i] {
				t.Errorf("%q at verbosity %d: %s", text, verbosity, log)
			}
		}
	}
}
