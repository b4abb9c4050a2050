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
// agnhost's webhook. One is left out: "should be able to deny attaching pod"
// needs the verb CONNECT, which only pods, nodes and services have among the
// types that an API server itself admits. TestDefaultsAfterMutation covers
// "should mutate pod and apply defaults after mutation".
func TestAdmissionWebhooks(t *testing.T) {
	t.Parallel()
	w := newWebhooks(t)
	for name, test := range map[string]func(*testing.T, *webhooks, string){
		"discovery":        webhookDiscovery,
		"deny":             denyConfigMaps,
		"fail-closed":      failClosed,
		"fail-open":        failOpen,
		"mutate":           mutateConfigMaps,
		"configurations":   configurationsAreExempt,
		"timeout":          honorTimeout,
		"update":           updateConfigurations,
		"list":             listConfigurations,
		"match-conditions": matchConditions,
		"invalid":          invalidMatchConditions,
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

// Spec: "should include webhook resources in discovery documents".
func webhookDiscovery(t *testing.T, w *webhooks, _ string) {
	list, err := w.Client().Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, resource := range list.APIResources {
		found[resource.Name] = true
	}
	if !found["mutatingwebhookconfigurations"] || !found["validatingwebhookconfigurations"] {
		t.Errorf("discovery has %v", found)
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

// Spec: "should not be able to mutate or prevent deletion of webhook
// configuration objects".
func configurationsAreExempt(t *testing.T, w *webhooks, namespace string) {
	everywhere := func(resource string, operation admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return rule("admissionregistration.k8s.io", "*", resource, operation)
	}
	deny := validating(namespace, w.client("/always-deny"), everywhere("*", admissionregistrationv1.Delete))
	deny.NamespaceSelector = nil
	// Config maps show when the two configurations have been seen.
	denyMaps := validating(namespace, w.client("/always-deny"), rule("", "v1", "configmaps", admissionregistrationv1.Create))
	label := mutating(namespace, w.client("/add-label"), everywhere("*", admissionregistrationv1.Create))
	label.NamespaceSelector = nil
	w.mutate(label, mutating(namespace, w.client("/add-label"), rule("", "v1", "configmaps", admissionregistrationv1.Create)))
	w.waitAdmitted(namespace, harmless, hasLabel)
	w.validate(deny, denyMaps)
	_ = w.waitDenied(namespace, harmless, "denies all requests")
	configurations := w.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	created, err := configurations.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: unique("dummy")}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(created.Labels) > 0 {
		t.Errorf("the configuration was mutated: %v", created.Labels)
	}
	if err := configurations.Delete(t.Context(), created.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("the deletion of a configuration was denied: %v", err)
	}
}

// Spec: "should honor timeout".
func honorTimeout(t *testing.T, w *webhooks, namespace string) {
	slow := validating(namespace, w.client("/always-allow-delay-5s"), rule("", "v1", "configmaps", admissionregistrationv1.Create))
	slow.TimeoutSeconds = ptr.To[int32](1)
	configuration := w.validate(slow)
	bounded := func() { _ = w.waitDenied(namespace, harmless, "context deadline exceeded", "timeout=1s") }
	change := func(patch string) {
		client := w.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
		if _, err := client.Patch(t.Context(), configuration.Name, types.JSONPatchType, []byte("["+patch+"]"), metav1.PatchOptions{}); err != nil {
			t.Fatalf("change the configuration with %s: %v", patch, err)
		}
	}
	admitted := func() { w.waitAdmitted(namespace, harmless, func(*corev1.ConfigMap) error { return nil }) }
	bounded()
	change(`{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}`)
	admitted()
	change(`{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}`)
	bounded()
	change(`{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":30}`)
	admitted()
}

// Specs: "patching/updating a validating webhook should work" and
// "patching/updating a mutating webhook should work".
func updateConfigurations(t *testing.T, w *webhooks, namespace string) {
	deny := w.validate(validating(namespace, w.client("/configmaps"), rule("", "v1", "configmaps")))
	_ = w.waitDenied(namespace, disallowed, unwanted)
	validatingClient := w.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	deny.Webhooks[0].Rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	if _, err := validatingClient.Update(t.Context(), deny, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.waitAdmitted(namespace, disallowed, func(*corev1.ConfigMap) error { return nil })
	patch := []byte(`[{"op":"replace","path":"/webhooks/0/rules/0/operations","value":["CREATE"]}]`)
	if _, err := validatingClient.Patch(t.Context(), deny.Name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	_ = w.waitDenied(namespace, disallowed, unwanted)

	label := w.mutate(mutating(namespace, w.client("/add-label"), rule("", "v1", "configmaps", admissionregistrationv1.Create)))
	w.waitAdmitted(namespace, harmless, hasLabel)
	mutatingClient := w.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	label.Webhooks[0].Rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	if _, err := mutatingClient.Update(t.Context(), label, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.waitAdmitted(namespace, harmless, func(created *corev1.ConfigMap) error {
		if hasLabel(created) == nil {
			return fmt.Errorf("it is still mutated")
		}
		return nil
	})
	if _, err := mutatingClient.Patch(t.Context(), label.Name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.waitAdmitted(namespace, harmless, hasLabel)
}

// Specs: "listing validating webhooks should work" and "listing mutating
// webhooks should work".
func listConfigurations(t *testing.T, w *webhooks, namespace string) {
	for range 3 {
		w.validate(validating(namespace, w.client("/configmaps"), rule("", "v1", "configmaps")))
		w.mutate(mutating(namespace, w.client("/mutating-configmaps"), rule("", "v1", "configmaps")))
	}
	api := w.Client().AdmissionregistrationV1()
	selector := metav1.ListOptions{LabelSelector: "test=" + w.label()}
	validatingList, err := api.ValidatingWebhookConfigurations().List(t.Context(), selector)
	if err != nil || len(validatingList.Items) != 3 {
		t.Fatalf("listed %d validating configurations: %v", len(validatingList.Items), err)
	}
	mutatingList, err := api.MutatingWebhookConfigurations().List(t.Context(), selector)
	if err != nil || len(mutatingList.Items) != 3 {
		t.Fatalf("listed %d mutating configurations: %v", len(mutatingList.Items), err)
	}
	_ = w.waitDenied(namespace, disallowed, unwanted)
	if err := api.ValidatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, selector); err != nil {
		t.Fatal(err)
	}
	if err := api.MutatingWebhookConfigurations().DeleteCollection(t.Context(), metav1.DeleteOptions{}, selector); err != nil {
		t.Fatal(err)
	}
	w.waitAdmitted(namespace, map[string]string{"webhook-e2e-test": "webhook-disallow", "mutation-start": "yes"}, func(created *corev1.ConfigMap) error {
		if created.Data["mutation-stage-1"] != "" {
			return fmt.Errorf("it is still mutated")
		}
		return nil
	})
}

func skipMe() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "skip-me", Expression: `!('skip-me' in object.data)`}}
}

// Specs: "should be able to create and update validating webhook
// configurations with match conditions", "should be able to create and update
// mutating webhook configurations with match conditions", and "should mutate
// everything except 'skip-me' configmaps".
func matchConditions(t *testing.T, w *webhooks, namespace string) {
	deny := validating(namespace, w.client("/configmaps"), rule("", "v1", "configmaps", admissionregistrationv1.Create))
	deny.MatchConditions = skipMe()
	validated := w.validate(deny)
	_ = w.waitDenied(namespace, disallowed, unwanted)
	skipped := map[string]string{"skip-me": "", "webhook-e2e-test": "webhook-disallow"}
	if _, err := tryConfigMap(t, w.Client(), namespace, skipped); err != nil {
		t.Errorf("what the condition leaves out: %v", err)
	}
	validated.Webhooks[0].MatchConditions[0].Expression = "true"
	if _, err := w.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), validated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_ = w.waitDenied(namespace, skipped, unwanted)

	label := mutating(namespace, w.client("/add-label"), rule("", "v1", "configmaps", admissionregistrationv1.Create))
	label.MatchConditions = skipMe()
	mutated := w.mutate(label)
	w.waitAdmitted(namespace, harmless, hasLabel)
	created, err := tryConfigMap(t, w.Client(), namespace, map[string]string{"skip-me": ""})
	if err != nil || hasLabel(created) == nil {
		t.Errorf("what the condition leaves out was mutated: %v, %v", created.Labels, err)
	}
	mutated.Webhooks[0].MatchConditions[0].Expression = "true"
	if _, err := w.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), mutated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.waitAdmitted(namespace, map[string]string{"skip-me": ""}, hasLabel)
}

// Specs: "should reject validating webhook configurations with invalid match
// conditions" and "should reject mutating webhook configurations with invalid
// match conditions".
func invalidMatchConditions(t *testing.T, w *webhooks, namespace string) {
	invalid := []admissionregistrationv1.MatchCondition{{Name: "invalid", Expression: "... [] bad expression"}}
	deny := validating(namespace, w.client("/configmaps"), rule("", "v1", "configmaps"))
	deny.MatchConditions = invalid
	api := w.Client().AdmissionregistrationV1()
	_, err := api.ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: unique("invalid")}, Webhooks: []admissionregistrationv1.ValidatingWebhook{deny},
	}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "compilation failed") {
		t.Errorf("a validating configuration gets: %v", err)
	}
	label := mutating(namespace, w.client("/add-label"), rule("", "v1", "configmaps"))
	label.MatchConditions = invalid
	_, err = api.MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: unique("invalid")}, Webhooks: []admissionregistrationv1.MutatingWebhook{label},
	}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "compilation failed") {
		t.Errorf("a mutating configuration gets: %v", err)
	}
}

// unknownService: the error for an unknown reference names the object to
// create.
func unknownService(t *testing.T, w *webhooks, namespace string) {
	client := w.client("/configmaps")
	client.Service.Name = "unknown"
	w.validate(validating(namespace, client, rule("", "v1", "configmaps")))
	_ = w.waitDenied(namespace, harmless, `create the ServiceEndpoint (kube-hyper-mini.io/v1alpha1) "unknown" in namespace "webhooks"`)
}
