package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const cborType = "application/cbor"

// exchange sends an object and decodes the answer, both as CBOR.
func exchange(t *testing.T, client *http.Client, method, url string, object map[string]any) map[string]any {
	t.Helper()
	var content io.Reader
	if object != nil {
		data, err := direct.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, content)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", cborType)
	request.Header.Set("Content-Type", cborType)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // read to the end
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode >= http.StatusMultipleChoices || response.Header.Get("Content-Type") != cborType {
		t.Fatalf("%s %s answers %s in %s:\n%s", method, url, response.Status, response.Header.Get("Content-Type"), data)
	}
	var answer map[string]any
	if err := direct.Unmarshal(data, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestCBOR: with upstream's feature gate, CBOR is spoken, and custom resources
// are stored in it.
func TestCBOR(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, "apiServer: {featureGates: {CBORServingAndStorage: true}}"))
	k := newKind()
	define(t, s, k, k.definition("Namespaced"))
	client, host := admin(t, s)
	url := host + "/apis/" + k.group + "/v1/namespaces/default/" + k.plural
	exchange(t, client, http.MethodPost, url, map[string]any{
		"apiVersion": k.group + "/v1", "kind": k.name, "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"size": int64(3)},
	})
	read := exchange(t, client, http.MethodGet, url+"/w", nil)
	if spec, ok := read["spec"].(map[string]any); !ok || spec["size"] != int64(3) {
		t.Errorf("read as CBOR: %v", read)
	}
	if got := s.Kubectl("", "get", k.plural, "w", "-o", "jsonpath={.spec.size}"); got != "3" {
		t.Errorf("read as JSON: %q", got)
	}
	if namespaces := exchange(t, client, http.MethodGet, host+"/api/v1/namespaces", nil); namespaces["kind"] != "NamespaceList" {
		t.Errorf("native resources: %v", namespaces)
	}
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	if !onDisk(t, s.Dir, "\xd9\xd9\xf7") { // the tag that CBOR is known by
		t.Error("nothing is stored in CBOR")
	}
}

// TestJSONLog: each line is an object with upstream's keys.
func TestJSONLog(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, "logging: {format: json, verbosity: 2}"))
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	said := map[string]bool{}
	for line := range strings.Lines(s.Log()) {
		var record struct {
			Time    string `json:"ts"`
			Level   string `json:"level"`
			Message string `json:"msg"`
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Level == "" || record.Message == "" {
			t.Errorf("%v: %s", err, line)
		}
		said[record.Message] = true
	}
	for _, message := range []string{"kube-hyper-mini starts", "ready", "stopped"} {
		if !said[message] {
			t.Errorf("nothing says %q", message)
		}
	}
}

// TestAudit: who did what is in the log, as far as the policy requests it.
func TestAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	content := `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: Request, resources: [{group: "", resources: [configmaps]}], namespaces: [default]}
- {level: None}
`
	harness.WriteFile(t, policy, content)
	s := harness.Start(t, "--config", harness.ConfigFile(t, "apiServer: {audit: {policyFile: "+policy+", logPath: "+log+"}}"))
	s.Kubectl("", "create", "secret", "generic", "s", "--from-literal=key=TheSecret")
	s.Kubectl("", "create", "configmap", "c", "--from-literal=key=TheConfigMap")
	s.Kubectl("", "create", "serviceaccount", "unseen")
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	data := harness.ReadFile(t, log)
	type event struct {
		Kind, Level, Verb string
		User              struct{ Username string }
		ObjectRef         struct{ Resource, Name string }
	}
	var seen []event
	for line := range strings.Lines(string(data)) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Kind != "Event" {
			t.Errorf("%v: %s", err, line)
		}
		if e.Verb == "create" && e.User.Username == "admin" {
			seen = append(seen, e)
		}
	}
	if len(seen) != 2 || seen[0].Level != "Metadata" || seen[0].ObjectRef.Name != "s" || seen[1].Level != "Request" || seen[1].ObjectRef.Name != "c" {
		t.Errorf("the log has %+v", seen)
	}
	harness.Contains(t, string(data), "TheConfigMap")
	if strings.Contains(string(data), "VGhlU2VjcmV0") || strings.Contains(string(data), "TheSecret") {
		t.Error("the log has the secret's content")
	}
}
