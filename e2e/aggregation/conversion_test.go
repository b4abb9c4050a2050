package aggregation

import (
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// convertible is the group that agnhost's converter supports.
const convertible = "stable.example.com"

// defineConvertible creates a definition whose versions the webhook converts.
func (w *webhooks) defineConvertible() *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	crd := definition(convertible)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1", "v1beta1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				CABundle: w.ca.bundle,
				Service:  &apiextensionsv1.ServiceReference{Namespace: hookNamespace, Name: hookService, Path: ptr.To("/crdconvert")},
			},
		},
	}
	w.define(crd)
	return crd
}

// convertibles are the objects in one of the versions.
func (w *webhooks) convertibles(version, namespace string) dynamic.ResourceInterface {
	resource := schema.GroupVersionResource{Group: convertible, Version: version, Resource: "widgets"}
	return w.Dynamic().Resource(resource).Namespace(namespace)
}

// createConvertible creates an object in a version and returns its name.
func (w *webhooks) createConvertible(version, namespace string, fields map[string]any) string {
	w.t.Helper()
	object := widget(convertible, version, nil)
	delete(object.Object, "data")
	maps.Copy(object.Object, fields)
	created, err := w.convertibles(version, namespace).Create(w.t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("create in %s: %v", version, err)
	}
	return created.GetName()
}

// TestConversionWebhook converts stable.example.com between v1 and v2.
//
// Specs: "should be able to convert from CR v1 to CR v2" and "should be able
// to convert a non homogeneous list of CRs".
func TestConversionWebhook(t *testing.T) {
	t.Parallel()
	w := &webhooks{environment: newEnvironment(t), ca: newAuthority(t)}
	r := w.replica(t, "converter")
	w.endpoint(hookNamespace, hookService, target(r.port))
	w.waitReachable(hookNamespace, hookService, "1/1") // else the server may not know it when it converts
	w.defineConvertible()
	namespace := unique("converted")
	w.createNamespace(namespace)
	v1, v2 := w.convertibles("v1", namespace), w.convertibles("v2", namespace)
	first := w.createConvertible("v1", namespace, map[string]any{"hostPort": "localhost:8080"})
	converted, err := v2.Get(t.Context(), first, metav1.GetOptions{})
	if err != nil || converted.Object["host"] != "localhost" || converted.Object["port"] != "8080" {
		t.Fatalf("v1 read as v2: %v, %v", converted, err)
	}
	w.createConvertible("v2", namespace, map[string]any{"host": "example.com", "port": "443"})
	for version, field := range map[string]string{"v1": "hostPort", "v2": "host"} {
		list, err := w.convertibles(version, namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			t.Fatalf("list as %s: %v", version, err)
		}
		for _, item := range list.Items {
			if value, found, _ := unstructured.NestedString(item.Object, field); !found || value == "" {
				t.Errorf("listed as %s: %v", version, item.Object)
			}
		}
	}

	withoutConverter(t, w, r, first, v1, v2)
}

// withoutConverter stops the converter: the other version cannot be read, and
// has the reason; the stored one can.
func withoutConverter(t *testing.T, w *webhooks, r *replica, name string, v1, v2 dynamic.ResourceInterface) {
	r.Stop(syscall.SIGTERM)
	harness.Eventually(t, "v2 cannot be read", func() error {
		_, err := v2.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil || !strings.Contains(err.Error(), "no target of service webhooks/hook accepts a connection") {
			return fmt.Errorf("it gives: %v", err)
		}
		return nil
	})
	if _, err := v1.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Errorf("the stored version: %v", err)
	}
	r.launch(t, w)
	harness.Eventually(t, "v2 can be read again", func() error {
		_, err := v2.Get(t.Context(), name, metav1.GetOptions{})
		return err
	})
}
