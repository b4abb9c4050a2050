package aggregation

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// crdClient is for definitions.
func (e *environment) crdClient() apiextensions.Interface {
	e.t.Helper()
	client, err := apiextensions.NewForConfig(e.RESTConfig())
	if err != nil {
		e.t.Fatal(err)
	}
	return client
}

// definition has versions v1 (stored) and v2 of a type with free content.
func definition(group string) *apiextensionsv1.CustomResourceDefinition {
	root := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	version := func(name string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: stored, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: root},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
		},
	}
}

// define creates a definition until the test ends and waits until it is served.
func (e *environment) define(crd *apiextensionsv1.CustomResourceDefinition) {
	e.t.Helper()
	client := e.crdClient().ApiextensionsV1().CustomResourceDefinitions()
	if _, err := client.Create(e.t.Context(), crd, metav1.CreateOptions{}); err != nil {
		e.t.Fatalf("create %s: %v", crd.Name, err)
	}
	e.t.Cleanup(func() {
		if err := client.Delete(background, crd.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			e.t.Errorf("delete %s: %v", crd.Name, err)
		}
	})
	harness.Eventually(e.t, crd.Name+" is served", func() error {
		for _, version := range crd.Spec.Versions {
			resource := schema.GroupVersionResource{Group: crd.Spec.Group, Version: version.Name, Resource: crd.Spec.Names.Plural}
			if _, err := e.Dynamic().Resource(resource).List(e.t.Context(), metav1.ListOptions{}); err != nil && !apierrors.IsInternalError(err) {
				return err
			}
		}
		return nil
	})
}

func widget(group, version string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + version, "kind": "Widget", "metadata": map[string]any{"name": unique("widget")}, "data": data,
	}}
}

// Specs: "should be able to deny custom resource creation, update and
// deletion", "should mutate custom resource" and "should mutate custom resource
// with different stored version".
func customResources(t *testing.T, w *webhooks, namespace string) {
	group := unique("g") + ".example.com"
	w.define(definition(group))
	widgets := w.Dynamic().Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace(namespace)
	w.validate(validating(namespace, w.client("/custom-resource"), rule(group, "*", "widgets")))
	harness.Eventually(t, "creation is denied", func() error {
		_, err := widgets.Create(t.Context(), widget(group, "v1", map[string]any{"webhook-e2e-test": "webhook-disallow"}), metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "unwanted data") {
			return fmt.Errorf("it is not: %v", err)
		}
		return nil
	})
	held, err := widgets.Create(t.Context(), widget(group, "v1", map[string]any{"webhook-e2e-test": "webhook-nondeletable"}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(value string) error {
		_, err := widgets.Patch(t.Context(), held.GetName(), types.MergePatchType, []byte(`{"data":{"webhook-e2e-test":"`+value+`"}}`), metav1.PatchOptions{})
		return err
	}
	if patch("webhook-disallow") == nil {
		t.Error("an update was admitted")
	}
	if widgets.Delete(t.Context(), held.GetName(), metav1.DeleteOptions{}) == nil {
		t.Error("a deletion was admitted")
	}
	if err := patch("webhook-allow"); err != nil {
		t.Fatal(err)
	}
	if err := widgets.Delete(t.Context(), held.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Errorf("a deletion that is allowed: %v", err)
	}

	t.Run("mutated", func(t *testing.T) { mutatedCustomResources(t, w, namespace, group) })
}

// mutateWidgets registers the two stages of agnhost's mutation.
func (w *webhooks) mutateWidgets(namespace, group string) {
	hook := func() admissionregistrationv1.MutatingWebhook {
		return mutating(namespace, w.client("/mutating-custom-resource"), rule(group, "*", "widgets", admissionregistrationv1.Create, admissionregistrationv1.Update))
	}
	w.mutate(hook(), hook())
}

func mutatedCustomResources(t *testing.T, w *webhooks, namespace, group string) {
	w.mutateWidgets(namespace, group)
	resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	widgets := w.Dynamic().Resource(resource).Namespace(namespace)
	var created *unstructured.Unstructured
	harness.Eventually(t, "creation is mutated", func() (err error) {
		if created, err = widgets.Create(t.Context(), widget(group, "v1", map[string]any{"mutation-start": "yes"}), metav1.CreateOptions{}); err != nil {
			return err
		}
		return stages(created, "mutation-stage-1", "mutation-stage-2")
	})
	// v2 becomes the stored version; what was stored as v1 is mutated as v2.
	client := w.crdClient().ApiextensionsV1().CustomResourceDefinitions()
	stored := []byte(`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`)
	if _, err := client.Patch(t.Context(), "widgets."+group, types.JSONPatchType, stored, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "an object stored before is changed", func() error {
		changed, err := widgets.Patch(t.Context(), created.GetName(), types.MergePatchType, []byte(`{"data":{"mutation-stage-2":null,"other":"data"}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return stages(changed, "mutation-stage-1", "mutation-stage-2")
	})
}

func stages(object *unstructured.Unstructured, names ...string) error {
	for _, name := range names {
		if value, _, _ := unstructured.NestedString(object.Object, "data", name); value != "yes" {
			return fmt.Errorf("no %s in %v", name, object.Object["data"])
		}
	}
	return nil
}

// Spec: "should deny crd creation".
func denyCRDs(t *testing.T, w *webhooks, _ string) {
	hook := validating("", w.client("/crd"), rule("apiextensions.k8s.io", "*", "customresourcedefinitions", admissionregistrationv1.Create))
	hook.NamespaceSelector = nil
	w.validate(hook)
	client := w.crdClient().ApiextensionsV1().CustomResourceDefinitions()
	harness.Eventually(t, "the definition is denied", func() error {
		crd := definition(unique("g") + ".example.com")
		crd.Labels = map[string]string{"webhook-e2e-test": "webhook-disallow"}
		_, err := client.Create(t.Context(), crd, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "the crd contains unwanted label") {
			return fmt.Errorf("it is not: %v", err)
		}
		return nil
	})
}
