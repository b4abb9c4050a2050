package crds

import (
	"bytes"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

func ptr[T any](value T) *T { return &value }

// widgets is an established CRD with everything that light CRDs leave out.
func widgets() *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList", ShortNames: []string{"wd"}, Categories: []string{"all"},
	}
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage, Deprecated: !storage, DeprecationWarning: ptr("use v2"),
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Description: "of " + name,
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", XPreserveUnknownFields: ptr(true)}},
			}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
			},
			AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Size", Type: "integer", JSONPath: ".spec." + name}},
			SelectableFields:         []apiextensionsv1.SelectableField{{JSONPath: ".spec.color" + name}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "widgets.example.com", UID: "1", Generation: 3, Labels: map[string]string{"a": "b"}, Finalizers: []string{"example.com/keep"},
			Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "kept": "yes"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1("{}")}},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Names: names, Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", false), version("v2", true)},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: ptr("https://localhost/convert")}, ConversionReviewVersions: []string{"v1"},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names, StoredVersions: []string{"v2"},
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts"},
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted"},
			},
		},
	}
}

func internal(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd.DeepCopy(), out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStoredDefinitionsAreDecodedWithoutSchemas(t *testing.T) {
	t.Parallel()
	storage, err := customresources.NewProtobufStorage(nil)
	if err != nil {
		t.Fatal(err)
	}
	oneSchema := widgets()
	oneSchema.Spec.Versions[1].Schema = oneSchema.Spec.Versions[0].Schema.DeepCopy()
	oneSchema.Spec.Versions[1].AdditionalPrinterColumns = oneSchema.Spec.Versions[0].AdditionalPrinterColumns
	oneSchema.Spec.Versions[1].SelectableFields = oneSchema.Spec.Versions[0].SelectableFields
	legacy := func(versions ...schema.GroupVersion) runtime.Codec {
		return apiextensionsapiserver.Codecs.LegacyCodec(versions...)
	}
	for name, codec := range map[string]runtime.Codec{
		"protobuf":     storage.Codec,
		"JSON v1beta1": legacy(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion),
		"JSON v1":      legacy(apiextensionsv1.SchemeGroupVersion),
	} {
		for kind, crd := range map[string]*apiextensionsv1.CustomResourceDefinition{"schemas differ": widgets(), "one schema": oneSchema} {
			t.Run(name+", "+kind, func(t *testing.T) {
				data, err := runtime.Encode(codec, internal(t, crd))
				if err != nil {
					t.Fatal(err)
				}
				if shared := bytes.Count(data, []byte("of v1")); name == "protobuf" && kind == "one schema" && shared != 1 {
					t.Errorf("a shared schema is stored %d times", shared)
				}
				if bytes.Contains(customresources.WithoutSchemas(data), []byte("of v")) && name == "protobuf" {
					t.Error("the schemas are not skipped")
				}
				decoded := &apiextensions.CustomResourceDefinition{}
				if _, _, err := (metadataCodec{storage.Codec}).Decode(data, nil, decoded); err != nil {
					t.Fatal(err)
				}
				got, err := lightOf(decoded)
				if err != nil {
					t.Fatal(err)
				}
				want := widgets()
				want.TypeMeta = metav1.TypeMeta{}
				lighten(want)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
				if !reflect.DeepEqual(decoded.ObjectMeta, crd.ObjectMeta) {
					t.Errorf("metadata: got %+v, want %+v", decoded.ObjectMeta, crd.ObjectMeta)
				}
			})
		}
	}
}

// encodedWidgets returns the CRD as it is stored, and the codec.
func encodedWidgets(t *testing.T) (runtime.Codec, []byte) {
	t.Helper()
	storage, err := customresources.NewProtobufStorage(nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := runtime.Encode(storage.Codec, internal(t, widgets()))
	if err != nil {
		t.Fatal(err)
	}
	return storage.Codec, data
}

func TestDefinitionsAreStoredCompletely(t *testing.T) {
	t.Parallel()
	codec, data := encodedWidgets(t)
	stored := &apiextensions.CustomResourceDefinition{}
	if err := runtime.DecodeInto(codec, data, stored); err != nil {
		t.Fatal(err)
	}
	got, err := toV1(stored)
	want := widgets()
	want.TypeMeta = metav1.TypeMeta{}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: got  %+v\nwant %+v", err, got, want)
	}
}

func TestMalformedStoredDefinitions(t *testing.T) {
	t.Parallel()
	codec, data := encodedWidgets(t)
	for name, malformed := range map[string][]byte{
		"no object": []byte("null?"), "JSON that ends": []byte(`{"kind":"CustomResourceDefinition"`),
		"protobuf that ends": data[:len(data)/2], "only the prefix": []byte("k8s\x00"),
	} {
		if _, _, err := (metadataCodec{codec}).Decode(malformed, nil, &apiextensions.CustomResourceDefinition{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLightOfCopies(t *testing.T) {
	t.Parallel()
	crd := internal(t, widgets())
	light, err := lightOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	want := widgets()
	want.TypeMeta = metav1.TypeMeta{}
	if stored, err := toV1(crd); err != nil || !reflect.DeepEqual(stored, want) {
		t.Errorf("%v: the source has changed: %+v", err, stored)
	}
	lighten(want)
	if !reflect.DeepEqual(light, want) {
		t.Errorf("got %+v, want %+v", light, want)
	}
	crd.Labels["a"], crd.Status.Conditions[0].Reason = "changed", "changed"
	if !reflect.DeepEqual(light, want) {
		t.Error("a change of the source shows in the copy")
	}
}
