package console

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// hook is a server of an admission and a conversion webhook on loopback.
type hook struct {
	*httptest.Server
	broken   atomic.Bool // it answers 500
	admitted atomic.Int64
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewTLSServer(h)
	t.Cleanup(h.Close)
	return h
}

// ServeHTTP admits everything, and converts by changing the apiVersion.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.broken.Load() {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	var review struct {
		Request struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request := review.Request
	if r.URL.Path == "/admit" {
		h.admitted.Add(1)
		answer(w, map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": map[string]any{"uid": request.UID, "allowed": true}})
		return
	}
	for _, object := range request.Objects {
		object["apiVersion"] = request.DesiredAPIVersion
	}
	answer(w, map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": map[string]any{
		"uid": request.UID, "convertedObjects": request.Objects, "result": map[string]any{"status": "Success"}}})
}

// client is the part of an object that says how to reach the webhook.
func (h *hook) client(path string) string {
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	return fmt.Sprintf("{url: %q, caBundle: %s}", h.URL+path, base64.StdEncoding.EncodeToString(bundle))
}

// TestOverview: it has the versions, the figures of requests, and the health of
// each remote API server, admission webhook and conversion webhook, as it changes.
func TestOverview(t *testing.T) {
	t.Parallel()
	s, h := harness.Start(t), newHook(t)
	s.Kubectl(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.remote.example.org}
spec:
  group: remote.example.org
  names: {kind: Gadget, plural: gadgets}
  scope: Cluster
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: `+h.client("/convert")+`}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: idles.remote.example.org}
spec:
  group: remote.example.org
  names: {kind: Idle, plural: idles}
  scope: Cluster
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: default, name: absent}}}}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: checks}
webhooks:
- name: gadgets.check.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: `+h.client("/admit")+`
  rules: [{apiGroups: [remote.example.org], apiVersions: ["*"], resources: [gadgets], operations: [CREATE]}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.absent.example.org}
spec: {group: absent.example.org, version: v1, groupPriorityMinimum: 100, versionPriority: 10, insecureSkipTLSVerify: true, service: {namespace: default, name: absent}}
`, "create", "-f", "-")
	s.Kubectl("apiVersion: remote.example.org/v1\nkind: Gadget\nmetadata: {name: one}\n", "create", "-f", "-")
	harness.Eventually(t, "the admission webhook is called", func() error { // a new configuration takes a moment
		if h.admitted.Load() > 0 {
			return nil
		}
		_, err := s.TryKubectl("apiVersion: remote.example.org/v1\nkind: Gadget\nmetadata: {generateName: more-}\n", "create", "-f", "-")
		return errors.Join(errors.New("it is not"), err)
	})
	s.Kubectl("", "get", "gadgets.v2.remote.example.org", "one")

	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.sees("ready", "Running for", "Kubernetes", harness.KubernetesVersion(t), "etcd", "Database", "Journal", "not configured", "the first ends")
	p.sees("webhook gadgets.check.example.org", h.URL+"/admit", "conversion of gadgets.remote.example.org", h.URL+"/convert",
		"conversion of idles.remote.example.org", "not called yet", "API absent.example.org/v1", "default/absent")
	p.shows("main tr", "gadgets.check.example.org", "answers")
	p.shows("main tr", "conversion of gadgets.remote.example.org", "answers")
	p.lacks("measuring")
	h.broken.Store(true)
	if out, err := s.TryKubectl("", "get", "gadgets.v2.remote.example.org", "one"); err == nil {
		t.Errorf("the object was converted by a webhook that is out of order: %s", out)
	}
	p.shows("main tr", "conversion of gadgets.remote.example.org", "fails")
	p.shows("main tr", "gadgets.check.example.org", "answers")
	h.broken.Store(false)
	s.Kubectl("", "get", "gadgets.v2.remote.example.org", "one")
	p.shows("main tr", "conversion of gadgets.remote.example.org", "answers")
	p.click("gadgets.remote.example.org")
	p.sees("CustomResourceDefinition", "Conditions", "Established")
}

// TestOverviewOfBackups: the next scheduled backup, the age of the journal's base, and
// that the journal has all changes.
func TestOverviewOfBackups(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	s := harness.Start(t, "--config", harness.ConfigFile(t, "journal: {destination: "+journal+"}\nbackup: {schedule: \"0 3 * * *\"}\n"))
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.sees("Last backup", ", next", "complete", "base of", journal)
}

// TestFullDatabase: the overview says that the quota is nearly used, then that the
// database is full and what to do; the editor has the same answer to a write. After a
// deletion, on the page, writes are accepted again.
func TestFullDatabase(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, "etcd: {embedded: {quotaBackend: 64Mi}}\n"))
	put := func(i int) error {
		_, err := s.Client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("large-%02d", i)}, Data: map[string]string{"k": strings.Repeat("v", 900<<10)},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // by a try that was not acknowledged
		}
		return err
	}
	p := open(t, launch(t, "--data-dir", s.Dir), "")
	p.sees("of 64 MiB")
	p.lacks("The quota is nearly used")
	written := 0
	harness.Eventually(t, "the database is full", func() error {
		for put(written) == nil {
			written++
		}
		if !strings.Contains(s.Log(), "still full after compaction") { // refused for a moment, to make room
			return fmt.Errorf("there is room after %d writes", written)
		}
		return nil
	})
	p.sees("read-only", "the database is full (", "raise etcd.embedded.quotaBackend and restart")

	p.visit("#/new/core/v1/configmaps?ns=default")
	p.write("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: refused, namespace: default}\n")
	p.click("Review")
	p.sees("dry run")
	p.click("Create")
	p.sees("Cannot create", "the database is full", "raise etcd.embedded.quotaBackend and restart")

	p.visit("#/objects/core/v1/configmaps?ns=default&q=large")
	p.sees("large-00")
	p.run("select all", clickIn(`[aria-label="Select all"]`))
	p.click(fmt.Sprintf("Delete %d", written))
	p.sees("Nothing depends on them.")
	p.run("delete", clickIn("dialog[open] .danger"))
	p.sees("No row matches.")
	p.visit("#/")
	p.sees("Database")
	p.lacks("the database is full (")
	harness.Eventually(t, "writes are accepted again", func() error { return put(0) })
}

// TestNotReady: the overview says which check fails, of any API server.
func TestNotReady(t *testing.T) {
	t.Parallel()
	server := &many{types: 20, objects: 1}
	p := open(t, launch(t, "--kubeconfig", server.serve(t)), "")
	p.sees("ready", "1 check passed", "v1.36.3")
	p.lacks("not ready")
	server.unready.Store(true)
	p.sees("not ready", "etcd failed: reason withheld")
	server.unready.Store(false)
	p.lacks("not ready")
}

// TestUnreadableAnswers: a page shows that an answer is not what it has asked for, and
// continues when it is.
func TestUnreadableAnswers(t *testing.T) {
	t.Parallel()
	server := &many{types: 20, objects: 1}
	server.unreadable.Store(true)
	p := open(t, launch(t, "--kubeconfig", server.serve(t)), "#/objects/group000.example.org/v1/type0000s")
	p.sees("Cannot list type0000s")
	p.visit("#/object/group000.example.org/v1/type0000s/-/one")
	p.sees("Cannot read Type0000 one")
	p.visit("#/objects/group000.example.org/v1/type0000s")
	p.sees("Cannot list type0000s")
	server.unreadable.Store(false)
	p.sees("No objects.")
	p.lacks("Cannot")
}
