package aggregation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// Timeouts of the webhook in seconds: a short one for the test of the timeout,
// and one that a loaded machine does not reach.
const shortTimeout, longTimeout = 2, 30

// caller is a part of the server that calls the webhook.
type caller struct {
	// call makes a request for which the server calls the webhook.
	call func() error
	// configure changes the webhook's CA bundle, path and timeout in seconds.
	configure func(bundle []byte, path string, seconds int32) error
	// timeout is part of the error when the webhook does not answer.
	timeout string
}

// conversionCaller calls a conversion webhook by reading an object in the version that
// is not stored.
func conversionCaller(w *webhooks, namespace string) caller {
	crd := w.defineConvertible()
	name := w.createConvertible("v1", namespace, map[string]any{"hostPort": "localhost:8080"})
	path := fmt.Sprintf("/apis/%s/v2/namespaces/%s/widgets/%s", convertible, namespace, name)
	patience := int32(longTimeout)
	return caller{
		call: func() error {
			text, err := w.Client().Discovery().RESTClient().Get().AbsPath(path).Param("timeout", fmt.Sprintf("%ds", patience)).DoRaw(background)
			switch {
			case err != nil:
				return fmt.Errorf("%w: %s", err, text)
			case !strings.Contains(string(text), `"host":"localhost"`):
				return fmt.Errorf("it was not converted: %s", text)
			}
			return nil
		},
		configure: func(bundle []byte, path string, seconds int32) error {
			patience = seconds
			client := w.crdClient().ApiextensionsV1().CustomResourceDefinitions()
			return retry.RetryOnConflict(retry.DefaultRetry, func() error {
				crd, err := client.Get(w.t.Context(), crd.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				config := crd.Spec.Conversion.Webhook.ClientConfig
				config.CABundle, config.Service.Path = bundle, &path
				_, err = client.Update(w.t.Context(), crd, metav1.UpdateOptions{})
				return err
			})
		},
		timeout: "Timeout: request did not complete",
	}
}

// TestRotation moves, rotates, ends and silences the servers behind a reference of a
// conversion webhook; TestWebhookReplicas does so for an admission webhook.
func TestRotation(t *testing.T) {
	t.Parallel()
	const path = "/crdconvert"
	w := &webhooks{environment: newEnvironment(t), ca: newAuthority(t)}
	one, two := w.replica(t, "one"), w.replica(t, "two")
	w.endpoint(hookNamespace, hookService, target(one.port))
	namespace := unique("rotation")
	w.createNamespace(namespace)
	a := conversionCaller(w, namespace)
	a.waitAnswered(t, "the first server answers")
	w.endpoint(hookNamespace, hookService, target(two.port))
	one.stop(syscall.SIGTERM)
	a.waitAnswered(t, "the second server answers")
	other := a.rotate(t, w, two, path)
	one.files.renew(t, other, hookHost)
	one.launch(t, w)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		w.endpoint(hookNamespace, hookService, target(two.port))
		a.waitAnswered(t, "the server that is to end answers")
		w.endpoint(hookNamespace, hookService, target(two.port), target(one.port), target(harness.FreePort(t)))
		w.waitReachable(hookNamespace, hookService, "2/3")
		underLoad(t, maxFailures, func() { two.stop(signal) }, a.call)
		a.waitAnswered(t, "the first server answers alone")
		two.launch(t, w)
	}
	a.silence(t, other, path)
}

// rotate gives a server a new certificate of its authority, and then one of
// another authority, which is returned. The other authority is trusted after
// the server has its certificate.
func (a caller) rotate(t *testing.T, w *webhooks, r *replica, path string) *authority {
	t.Helper()
	r.files.renew(t, w.ca, hookHost)
	r.stop(syscall.SIGTERM)
	r.launch(t, w)
	a.waitAnswered(t, "a server with a new certificate answers")
	old, other := w.ca, newAuthority(t)
	w.ca = other
	r.files.renew(t, other, hookHost)
	r.stop(syscall.SIGTERM)
	r.launch(t, w)
	a.waitFailed(t, "unknown authority")
	if err := a.configure(slices.Concat(old.bundle, other.bundle), path, longTimeout); err != nil {
		t.Fatal(err)
	}
	a.waitAnswered(t, "the other authority is trusted")
	return other
}

// silence lets calls time out, and then makes the server answer again.
func (a caller) silence(t *testing.T, ca *authority, path string) {
	t.Helper()
	if err := a.configure(ca.bundle, "/slow", shortTimeout); err != nil {
		t.Fatal(err)
	}
	a.waitFailed(t, a.timeout)
	if err := a.configure(ca.bundle, path, longTimeout); err != nil {
		t.Fatal(err)
	}
	a.waitAnswered(t, "it answers again")
}

func (a caller) waitAnswered(t *testing.T, what string) {
	t.Helper()
	harness.Eventually(t, what, a.call)
}

func (a caller) waitFailed(t *testing.T, want string) {
	t.Helper()
	harness.Eventually(t, "a request fails with "+want, func() error {
		err := a.call()
		if err == nil {
			return errors.New("it succeeds")
		}
		if !strings.Contains(err.Error(), want) {
			return err
		}
		return nil
	})
}
