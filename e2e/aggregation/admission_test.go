package aggregation

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var (
	disallowed = map[string]string{"webhook-e2e-test": "webhook-disallow"}
	harmless   = map[string]string{"a": "b"}
)

// unwanted is the message with which agnhost's webhook denies.
const unwanted = "unwanted key and value"

// TestAdmissionWebhooks runs the substance of upstream's specs against
// agnhost's webhook, as far as the server's own parts have to do with it: how the
// webhook is reached, and which of its types are admitted. What upstream's plugins do
// with the configurations is left to upstream's tests.
func TestAdmissionWebhooks(t *testing.T) {
	t.Parallel()
	w := newWebhooks(t)
	for name, test := range map[string]func(*testing.T, *webhooks, string){
		"deny":             denyConfigMaps,
		"fail-closed":      failClosed,
		"fail-open":        failOpen,
		"mutate":           mutateConfigMaps,
		"custom-resources": customResources,
		"crds":             denyCRDs,
		"unknown":          unknownService,
	} {
		t.Run(name, func(t *testing.T) {
			bound, namespace := w.forTest(t)
			test(t, bound, namespace)
		})
	}
}

// Spec: "should be able to deny pod and configmap creation" (config maps).
func denyConfigMaps(t *testing.T, w *webhooks, namespace string) {
	w.validate(validating(namespace, w.client("/configmaps"), rule("", "v1", "configmaps")))
	_ = w.waitDenied(namespace, disallowed, unwanted)
	if strings.Contains(w.Log(), "rejected by webhook") {
		t.Errorf("the log has a rejection, whose client has the message:\n%s", w.Log())
	}
	maps := w.Client().CoreV1().ConfigMaps(namespace)
	allowed, err := maps.Create(t.Context(), configMap(harmless), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("what the webhook admits: %v", err)
	}
	changed := allowed.DeepCopy()
	changed.Data = disallowed
	if _, err := maps.Update(t.Context(), changed, metav1.UpdateOptions{}); err == nil {
		t.Error("an update was admitted")
	}
	patch := []byte(`{"data":{"webhook-e2e-test":"webhook-disallow"}}`)
	if _, err := maps.Patch(t.Context(), allowed.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err == nil {
		t.Error("a patch was admitted")
	}
	elsewhere := unique("elsewhere")
	w.createNamespace(elsewhere)
	if _, err := tryConfigMap(t, w.Client(), elsewhere, disallowed); err != nil {
		t.Errorf("in a namespace that the webhook is not for: %v", err)
	}
}

// Spec: "should unconditionally reject operations on fail closed webhook".
func failClosed(t *testing.T, w *webhooks, namespace string) {
	client := w.client("/configmaps")
	client.CABundle = nil // the certificate's authority is not trusted
	w.validate(validating(namespace, client, rule("", "v1", "configmaps")))
	if err := w.waitDenied(namespace, harmless, "certificate"); !apierrors.IsInternalError(err) {
		t.Errorf("it was rejected with: %v", err)
	}
}

// failurePolicy Ignore, and a mutating webhook beside it that shows when the
// configurations have been seen.
func failOpen(t *testing.T, w *webhooks, namespace string) {
	client := w.client("/configmaps")
	client.CABundle = nil
	broken := mutating(namespace, client, rule("", "v1", "configmaps"))
	broken.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
	w.mutate(broken, mutating(namespace, w.client("/add-label"), rule("", "v1", "configmaps")))
	w.waitAdmitted(namespace, harmless, hasLabel)
}

func hasLabel(created *corev1.ConfigMap) error {
	if created.Labels["added-label"] != "yes" {
		return fmt.Errorf("labels are %v", created.Labels)
	}
	return nil
}

// Spec: "should mutate configmap".
func mutateConfigMaps(_ *testing.T, w *webhooks, namespace string) {
	hook := func() admissionregistrationv1.MutatingWebhook {
		return mutating(namespace, w.client("/mutating-configmaps"), rule("", "v1", "configmaps", admissionregistrationv1.Create))
	}
	w.mutate(hook(), hook())
	w.waitAdmitted(namespace, map[string]string{"mutation-start": "yes"}, func(created *corev1.ConfigMap) error {
		if created.Data["mutation-stage-1"] != "yes" || created.Data["mutation-stage-2"] != "yes" {
			return fmt.Errorf("the data is %v", created.Data)
		}
		return nil
	})
}

// unknownService: the error for an unknown reference names the object to
// create.
func unknownService(t *testing.T, w *webhooks, namespace string) {
	client := w.client("/configmaps")
	client.Service.Name = "unknown"
	w.validate(validating(namespace, client, rule("", "v1", "configmaps")))
	_ = w.waitDenied(namespace, harmless, `create the ServiceEndpoint (kube-hyper-mini.io/v1alpha1) "unknown" in namespace "webhooks"`)
}
