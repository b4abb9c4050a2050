package e2e

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// watchSecrets watches the Secrets of the namespace default until the test ends.
func (c *runningClient) watchSecrets(t *testing.T) watch.Interface {
	t.Helper()
	w, err := c.client.CoreV1().Secrets("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	t.Cleanup(w.Stop)
	return w
}

// awaitSecret waits for the event of a Secret.
func awaitSecret(ctx context.Context, w watch.Interface, name string) error {
	for {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return errors.New("the watch has ended")
			}
			if object, ok := event.Object.(metav1.Object); ok && object.GetName() == name {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TestUntrustedWatches: a watch ends soon after its client certificate was revoked, or when
// its authority is no longer trusted; others go on.
func TestUntrustedWatches(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	s.Kubectl("", "create", "clusterrolebinding", "jane", "--clusterrole=cluster-admin", "--user=jane")
	admin := newClient(t, "the administrator", harness.ReadFile(t, s.Kubeconfig), false).watchSecrets(t)
	jane := newClient(t, "jane", userKubeconfig(t, s, "jane"), false).watchSecrets(t)
	ends := func(name string, w watch.Interface) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
		defer cancel()
		if err := awaitSecret(ctx, w, "never"); err == nil || ctx.Err() != nil {
			t.Errorf("the watch of %s goes on: %v", name, err)
		}
	}
	certs(t, s, "revoke-admin")
	ends("the administrator", admin)
	s.Kubectl("", "create", "secret", "generic", "after-revocation")
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	if err := awaitSecret(ctx, jane, "after-revocation"); err != nil {
		t.Errorf("the watch of jane: %v", err)
	}
	certs(t, s, "rotate", "client", "--overlap", "0s")
	ends("jane", jane)
}

// TestWebhookIsNoCommand: a webhook at the server itself has none of its rights.
func TestWebhookIsNoCommand(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	key := string(harness.ReadFile(t, s.Dir+"/encryption/config.yaml"))
	s.Kubectl(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: deputy}
webhooks:
- name: deputy.example.com
  clientConfig: {service: {namespace: default, name: kubernetes, path: /kube-hyper-mini/encryption/rotate}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  sideEffects: None
  failurePolicy: Fail
  admissionReviewVersions: [v1]
`, "create", "-f", "-")
	harness.Eventually(t, "the webhook is called", func() error {
		out, err := s.TryKubectl("", "create", "configmap", "any", "--dry-run=server")
		if err == nil {
			return errors.New("not yet")
		}
		harness.Contains(t, out, "system:kube-hyper-mini:webhooks", "cannot post path")
		return nil
	})
	if now := string(harness.ReadFile(t, s.Dir+"/encryption/config.yaml")); now != key {
		t.Error("the webhook has rotated the encryption key")
	}
}
