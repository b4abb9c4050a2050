package planes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestLargeBodies: the bound of what a connection of the host sends without a request does not
// count the requests to control planes.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	maps := h.create(t, "acme", nil).CoreV1().ConfigMaps("default")
	for i := range 40 { // ten times the bound
		o := configMap(fmt.Sprintf("map-%d", i))
		o.Data = map[string]string{"key": strings.Repeat("x", 100<<10)}
		if _, err := maps.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatalf("the request %d: %v", i, err)
		}
	}
}

// TestWhichThereAre: who has no rights gets the same answer from a control plane that is awake, from
// one that sleeps, and from none.
func TestWhichThereAre(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	own := newClient(t, h.config)
	awake, asleep := h.create(t, "awake", nil), h.create(t, "asleep", nil)
	for _, client := range []kubernetes.Interface{awake, asleep} {
		if _, err := client.Discovery().ServerVersion(); err != nil {
			t.Fatal(err)
		}
	}
	h.sleepNow(t, "asleep")
	for who, credentials := range map[string]func(*rest.Config){
		"nobody": func(*rest.Config) {}, "any token": func(c *rest.Config) { c.BearerToken = "token" }, "a token of the host": token(t, own),
	} {
		for _, path := range []string{"/api/v1/namespaces", "/version", "/apis"} {
			answers := map[string]string{}
			for _, name := range []string{"awake", "asleep", "none"} {
				data, err := h.with(t, name, credentials).Discovery().RESTClient().Get().AbsPath(prefix, name, path).DoRaw(t.Context())
				status := apierrors.APIStatus(nil)
				if !errors.As(err, &status) {
					t.Fatalf("%s gets %v", who, err)
				}
				answers[name] = fmt.Sprint(status.Status().Code, string(data))
			}
			if answers["awake"] != answers["none"] || answers["asleep"] != answers["none"] || !strings.HasPrefix(answers["none"], "401") {
				t.Errorf("%s gets %v for %s", who, answers, path)
			}
		}
	}
}
