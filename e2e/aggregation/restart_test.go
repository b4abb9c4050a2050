package aggregation

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestSampleAPIServerRestarts stops the sample server and starts it again.
func TestSampleAPIServerRestarts(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	namespace := unique("held")
	s.createNamespace(namespace)
	s.createFlunder(namespace, "content")
	waitFreshness(t, s, "Current")

	before := len(s.Log())
	s.process.Stop(syscall.SIGKILL)
	message := s.waitUnreachable(wardle)
	if !strings.Contains(message, "wardle/api") || !strings.Contains(message, fmt.Sprint(s.port)) {
		t.Errorf("the condition does not say who is where: %s", message)
	}
	if _, err := s.flunders(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a list of a dead server's objects gives: %v", err)
	}
	waitFreshness(t, s, "Stale")
	if out, err := s.TryKubectl("", "api-resources", "-o", "name"); !strings.Contains(out, "configmaps") {
		t.Errorf("discovery with one server down: %v\n%s", err, out)
	}
	namespaces := s.Client().CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the namespace says who holds it", func() error {
		held, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range held.Status.Conditions {
			if condition.Status == corev1.ConditionTrue && strings.Contains(condition.Message, wardle) {
				return nil
			}
		}
		return fmt.Errorf("its conditions: %v", held.Status.Conditions)
	})

	s.launch(t)
	s.waitAvailable(wardle, "True", "Passed")
	s.gone(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", namespace)
	again := unique("again")
	s.createNamespace(again)
	s.createFlunder(again, "works")
	logsOnce(t, s.Log()[before:], namespace)
}

// logsOnce checks that a log has each change of state of the sample's APIService
// and of a namespace, and not each attempt of those who look for the server.
func logsOnce(t *testing.T, log, namespace string) {
	t.Helper()
	times, last, failures := map[string]int{}, "", 0
	for _, line := range harness.WithoutSlowness(log) {
		if strings.Contains(line, " ERROR ") {
			t.Errorf("an error, where the server did what it must: %s", line)
		}
		for _, level := range []string{" WARN ", " INFO "} {
			_, text, found := strings.Cut(line, level)
			switch {
			case !found || !strings.Contains(text, wardle) && !strings.Contains(text, namespace):
			case strings.Contains(text, "aggregated API is "):
				// It may come and go more than once on a machine that is slow, with what follows
				// from that.
				state, _, _ := strings.Cut(text, " message=")
				if state == last {
					t.Errorf("said again: %s", text)
				}
				last = state
				if strings.Contains(state, "not available") {
					failures++
				}
			default:
				times[text]++
			}
		}
	}
	for text, n := range times {
		if n > max(1, failures) {
			t.Errorf("said %d times, and the server was lost %d times: %s", n, failures, text)
		}
	}
	for _, want := range []string{"aggregated API is not available", "aggregated API is available", "deleting the content of a namespace failed"} {
		if !strings.Contains(log, want) {
			t.Errorf("nothing says %q:\n%s", want, log)
		}
	}
}

// waitFreshness waits until aggregated discovery has that freshness for the sample's types.
func waitFreshness(t *testing.T, s *sample, want string) {
	t.Helper()
	harness.Eventually(t, "discovery says "+want, func() error {
		request := s.Client().Discovery().RESTClient().Get().AbsPath("/apis")
		data, err := request.SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").DoRaw(t.Context())
		if err != nil {
			return err
		}
		var list apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for _, group := range list.Items {
			if group.Name == wardle && string(group.Versions[0].Freshness) == want {
				return nil
			}
		}
		return fmt.Errorf("%d groups, none of them %s and %s", len(list.Items), wardle, want)
	})
}
