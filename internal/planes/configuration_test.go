package planes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
