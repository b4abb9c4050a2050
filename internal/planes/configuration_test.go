package planes

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// fields calls f for each field of the configuration that has no fields of its own.
func fields(value reflect.Value, path string, f func(path string, field reflect.Value)) {
	if _, quantity := value.Interface().(resource.Quantity); value.Kind() != reflect.Struct || quantity {
		f(path, value)
		return
	}
	for i := range value.NumField() {
		if field := value.Type().Field(i); field.IsExported() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fields(value.Field(i), strings.Trim(path+"."+name, "."), f)
		}
	}
}

// change sets a field to another value.
func change(t *testing.T, field reflect.Value) {
	t.Helper()
	switch value := field.Addr().Interface().(type) {
	case *resource.Quantity:
		*value = resource.MustParse("77Mi")
	case *map[string]bool:
		*value = map[string]bool{"changed": true}
	case *map[string]config.Scalar:
		*value = map[string]config.Scalar{"changed": "true"}
	case *[]config.ServiceEndpoint:
		*value = []config.ServiceEndpoint{{Name: "changed"}}
	case *[]string:
		*value = []string{"changed"}
	case *[]config.Scalar:
		*value = []config.Scalar{"changed"}
	case *time.Duration:
		*value = 77 * time.Second
	default:
		switch field.Kind() {
		case reflect.String:
			field.SetString("changed")
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.Int:
			field.SetInt(77)
		default:
			t.Fatalf("the test cannot change a %s", field.Type())
		}
	}
}

// TestFieldsOfTheHost: for each field of the configuration it is decided whether it is also that of
// the control planes ("help planes" has the list), and they have no others.
func TestFieldsOfTheHost(t *testing.T) {
	t.Parallel()
	taken := []string{"limits.", "serviceEndpointPolicy.", "controllerManager.controllers", "backup.encryptTo", "backup.endpoint",
		"apiServer.featureGates", "apiServer.authentication.maxTokenExpiration", "apiServer.encryption.", "apiServer.audit.policyFile"}
	derived := []string{
		"dataDir", "backup.dir", "planes.backupDir", "planes.quotaBackend", // of each
		"serving.bindAddress", // what serviceEndpointPolicy depends on
	}
	own := []string{
		"kind", "apiVersion", "serving.", "kubeconfig.", "logging.", // of the process, which serves them
		"apiServer.audit.log", // the host writes the log, see planeAudit
		"etcd.", "planes.", "manifests.", "serviceEndpoints",
		"backup.schedule", "backup.keep", "backup.beforeUpgrade", "journal.", // spec.backup, spec.journal
		"apis.profile", // spec.profile
		"apiServer.runtimeConfig", "apiServer.admission.", "apiServer.authentication.", "apiServer.authorization.",
		"apiServer.flowControl.", "apiServer.tracing.", "apiServer.flags", "controllerManager.server",
	}
	has := func(list []string, path string) bool {
		return slices.ContainsFunc(list, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
	}
	of := func(host *config.ServerConfiguration) map[string]any {
		values := map[string]any{}
		fields(reflect.ValueOf(configuration(host, "acme", "", Spec{})).Elem(), "", func(path string, field reflect.Value) {
			values[path] = field.Interface()
		})
		return values
	}
	normal := of(config.Default())
	fields(reflect.ValueOf(config.Default()).Elem(), "", func(path string, _ reflect.Value) {
		host, value := config.Default(), any(nil)
		fields(reflect.ValueOf(host).Elem(), "", func(other string, field reflect.Value) {
			if other == path {
				change(t, field)
				value = field.Interface()
			}
		})
		changed := of(host)
		switch {
		case has(taken, path):
			if !reflect.DeepEqual(changed[path], value) {
				t.Errorf("a control plane does not have %s of the server: %v", path, changed[path])
			}
		case has(derived, path):
			if reflect.DeepEqual(changed, normal) {
				t.Errorf("%s of the server changes nothing in a control plane", path)
			}
		case !has(own, path):
			t.Errorf("decide whether control planes have %s of the server, and say so in \"help planes\"", path)
		case !reflect.DeepEqual(changed, normal):
			t.Errorf("%s of the server changes the configuration of a control plane", path)
		}
	})
}

// TestSettingsOfTheHost: what is done in a control plane is audited, encrypted and refused as the
// configuration of the server says.
func TestSettingsOfTheHost(t *testing.T) {
	t.Parallel()
	policy, log := filepath.Join(t.TempDir(), "policy.yaml"), filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, func(c *config.ServerConfiguration) {
		c.Backup.Endpoint = config.Off
		c.APIServer.Audit.PolicyFile, c.APIServer.Audit.LogPath = policy, log
		c.APIServer.Encryption.Resources = []string{"secrets", "configmaps", "pods"}
	})
	acme := h.create(t, "acme", nil)
	if _, err := acme.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "audited"}, Data: map[string]string{"key": "in-plain-text"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.sleepNow(t, "acme")
	if _, err := acme.CoreV1().ConfigMaps("default").Get(t.Context(), "audited", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/kube-hyper-mini/backup": http.StatusForbidden, "/debug/pprof/": http.StatusNotFound} {
		if status, body := h.do(t, http.MethodPost, "/clusters/acme"+path); status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, body)
		}
	}
	events, err := os.ReadFile(log)
	for _, event := range []string{`"requestURI":"/clusters/acme/api/v1/namespaces/default/configmaps","verb":"create","user":{"username":"host:admin"`,
		`"requestURI":"/clusters/acme/api/v1/namespaces/default/configmaps/audited","verb":"get"`,
		`"requestURI":"/apis/planes.kube-hyper-mini.io/v1alpha1/controlplanes`} {
		if err != nil || !strings.Contains(string(events), event) {
			t.Errorf("the audit log has no %s: %v\n%s", event, err, events)
		}
	}
	if strings.Contains(string(events), "/clusters/acme/clusters/acme") {
		t.Error("an event has the path of the control plane twice")
	}
	db, err := os.ReadFile(filepath.Join(h.dir(), "acme", "etcd", "member", "snap", "db"))
	if err != nil || strings.Contains(string(db), "in-plain-text") {
		t.Errorf("config maps are not encrypted: %v", err)
	}
}

// TestPublished: a control plane publishes the authorities that clients verify its endpoint with, also
// after they have changed while it slept, and the URL of its token keys.
func TestPublished(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	acme := h.create(t, "acme", nil)
	awaitFirstWrites(t, acme)
	secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
		Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
	}}
	if _, err := acme.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	published := func(want []byte) bool {
		authorities, err := acme.CoreV1().ConfigMaps("default").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		token, err := acme.CoreV1().Secrets("default").Get(t.Context(), "token", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return authorities.Data["ca.crt"] == string(want) && string(token.Data["ca.crt"]) == string(want)
	}
	eventually(t, "the authorities of the kubeconfig are published", func() bool { return published(h.config.CAData) })
	h.sleepNow(t, "acme")
	file := filepath.Join(h.Manager.config.Host.DataDir, "pki", "server-ca.crt")
	other, err := os.ReadFile(filepath.Join(h.dir(), "acme", "pki", "server-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	rotated := append(other, h.config.CAData...)
	if err := os.WriteFile(file, rotated, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new authorities are published", func() bool { return published(rotated) })

	const discovery = "/clusters/acme/.well-known/openid-configuration"
	_, body := h.get(t, discovery)
	var keys struct {
		URL string `json:"jwks_uri"`
	}
	if err := json.Unmarshal([]byte(body), &keys); err != nil || keys.URL != h.config.Host+"/clusters/acme/openid/v1/jwks" {
		t.Errorf("%s has %s: %v", discovery, body, err)
	}
}
