package openapi

import (
	"encoding/json"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// schemaOf returns the schema of JSON.
func schemaOf(t testing.TB, text string) *apiextensionsv1.CustomResourceValidation {
	t.Helper()
	schema := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(text), schema); err != nil {
		t.Fatal(err)
	}
	return &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema}
}

// richSchema has what the schema of a document depends on.
const richSchema = `{"type": "object", "description": "Rich", "required": ["spec"], "properties": {
	"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}},
	"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self.size > 0"}], "properties": {
		"size": {"type": "integer", "default": 3, "nullable": true},
		"port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
		"ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
			"items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
		"template": {"type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"], "properties": {"spec": {"type": "object"}}},
		"templates": {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}},
		"byName": {"type": "object", "additionalProperties": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}},
		"anything": {"x-kubernetes-preserve-unknown-fields": true}}}}}`

// TestPartsAreThoseOfUpstream: a part has the paths and the schemas that upstream's builder
// makes of the definition.
func TestPartsAreThoseOfUpstream(t *testing.T) {
	none := func(*apiextensionsv1.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinitionVersion) {}
	for name, test := range map[string]struct {
		kind   string
		schema string
		change func(*apiextensionsv1.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinitionVersion)
	}{
		"rich":            {"Widget", richSchema, none},
		"a vowel":         {"Apple", richSchema, none},
		"a plural":        {"Settings", richSchema, none},
		"like a plural":   {"Class", richSchema, none},
		"in lower case":   {"widget", richSchema, none},
		"with a hyphen":   {"Wid-get", richSchema, none},
		"not structural":  {"Widget", `{"type": "object", "properties": {"spec": {"properties": {"size": {"type": "string"}}}}}`, none},
		"invalid types":   {"Widget", `{"type": "object", "properties": {"spec": {"type": "strange"}}}`, none},
		"without a type":  {"Widget", `{"x-kubernetes-preserve-unknown-fields": true}`, none},
		"of unknown kind": {"Widget", `{"type": "object", "x-kubernetes-preserve-unknown-fields": true}`, none},
		"without schema": {"Widget", `{}`, func(_ *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) {
			v.Schema = nil
		}},
		"keeps unknown fields": {"Widget", richSchema, func(d *apiextensionsv1.CustomResourceDefinition, _ *apiextensionsv1.CustomResourceDefinitionVersion) {
			d.Spec.PreserveUnknownFields = true
		}},
		"cluster": {"Widget", richSchema, func(d *apiextensionsv1.CustomResourceDefinition, _ *apiextensionsv1.CustomResourceDefinitionVersion) {
			d.Spec.Scope = apiextensionsv1.ClusterScoped
		}},
		"status": {"Widget", richSchema, func(_ *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) {
			v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		}},
		"scale": {"Octopus", richSchema, func(_ *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) {
			v.Subresources = &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size", LabelSelectorPath: ptr.To(".status.selector")},
			}
		}},
		"selectable": {"Widget", richSchema, func(_ *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) {
			v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.size"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := definition(test.kind, "example.com", "v1")
			d.Spec.Versions[0].Schema = schemaOf(t, test.schema)
			test.change(d, &d.Spec.Versions[0])
			want, err := customresources.BuildV3(d.DeepCopy(), "v1")
			if err != nil {
				t.Fatal(err)
			}
			part, err := v3Part(d, "v1", customresources.NewSkeletons(), newClaims())
			if err != nil {
				t.Fatal(err)
			}
			compare(t, part.sections[pathsSection], want.Paths.Paths)
			compare(t, part.sections[schemasSection], want.Components.Schemas)
			if message, err := part.protobuf(); err != nil || len(message) == 0 {
				t.Errorf("in protobuf: %d bytes, %v", len(message), err)
			}
		})
	}
}

// TestSharedSkeletonsAreNotWritten: definitions of one shape share a skeleton. Their parts
// do not depend on those that were made before.
func TestSharedSkeletonsAreNotWritten(t *testing.T) {
	shared := customresources.NewSkeletons()
	for _, kind := range []string{"Widget", "Gadget", "Widget"} {
		d := definition(kind, "example.com", "v1")
		d.Spec.Versions[0].Schema = schemaOf(t, richSchema)
		want, err := v3Part(d.DeepCopy(), "v1", customresources.NewSkeletons(), newClaims())
		if err != nil {
			t.Fatal(err)
		}
		got, err := v3Part(d, "v1", shared, newClaims())
		if err != nil {
			t.Fatal(err)
		}
		for section := range want.sections {
			compare(t, got.sections[section], want.sections[section])
		}
	}
}

// compare fails for members that are not equal as JSON.
func compare[V any](t *testing.T, got map[string]json.Marshaler, want map[string]V) {
	t.Helper()
	for name := range want {
		if got[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	for name, member := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is not upstream's", name)
			continue
		}
		if got, want := generic(t, member), generic(t, want[name]); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is\n%v\nwant\n%v", name, got, want)
		}
	}
}

// generic returns what JSON decodes to.
func generic(t *testing.T, value any) (decoded any) {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(encoded, &decoded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}
