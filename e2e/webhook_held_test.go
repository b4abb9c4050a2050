package e2e

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// heldWebhook is a webhook in this process that answers once it is released, and
// about objects named probe at once. It allows everything.
type heldWebhook struct {
	server  *httptest.Server
	arrived chan string // the resource of each request
	release func()
}

func newHeldWebhook(t *testing.T) *heldWebhook {
	t.Helper()
	released := make(chan struct{})
	w := &heldWebhook{arrived: make(chan string, 100), release: sync.OnceFunc(func() { close(released) })}
	w.server = httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(response, err.Error(), http.StatusBadRequest)
			return
		}
		w.arrived <- review.Request.Resource.Resource
		if review.Request.Name != "probe" {
			<-released
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(response).Encode(review) // the server may have given up
	}))
	t.Cleanup(w.server.Close)
	t.Cleanup(w.release) // first
	return w
}

// hold sends creations in a namespace to the webhook.
func (w *heldWebhook) hold(t *testing.T, s *harness.Server, ns string) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
	s.Kubectl(fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: held.example.com
  clientConfig: {url: %[2]q, caBundle: %[3]s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: ["*"]}]
  matchConditions: [{name: of-the-test, expression: "request.name in ['held', 'probe']"}]
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 30
`, ns, w.server.URL, base64.StdEncoding.EncodeToString(ca)), "create", "-f", "-")
	t.Cleanup(func() {
		if s.Running() {
			s.Kubectl("", "delete", "mutatingwebhookconfiguration", ns)
		}
	})
}

// await returns when the webhook has a request for the namespace.
func (w *heldWebhook) await(t *testing.T, s *harness.Server, ns string) {
	t.Helper()
	harness.Eventually(t, "the webhook is asked", func() error { // a new configuration takes a moment
		_, err := s.TryKubectl("", "create", "configmap", "probe", "-n", ns, "--dry-run=server")
		if err == nil && len(w.arrived) == 0 {
			return errors.New("it was not")
		}
		return err
	})
	for len(w.arrived) > 0 {
		<-w.arrived
	}
}
