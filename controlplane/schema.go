package controlplane

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// schemas describes Go types for OpenAPI by reflection, as openapi-gen does by generated code.
// Types that the base describes are referred to.
type schemas struct {
	base, made map[string]common.OpenAPIDefinition
	ref        common.ReferenceCallback
}

// add describes the struct type t and those that it refers to, and returns its name.
func (s *schemas) add(t reflect.Type) string { return s.addAs(modelNameOf(t), t) }

// addAs is add with another name.
func (s *schemas) addAs(name string, t reflect.Type) string {
	if _, known := s.base[name]; known {
		return name
	}
	if _, known := s.made[name]; known {
		return name
	}
	s.made[name] = common.OpenAPIDefinition{} // for types that refer to themselves
	object := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{}}}
	dependencies := map[string]bool{}
	s.addFields(t, &object, dependencies)
	s.made[name] = common.OpenAPIDefinition{Schema: object, Dependencies: slices.Sorted(maps.Keys(dependencies))}
	return name
}

// addFields adds the fields of the struct type t, as encoding/json sees them.
func (s *schemas) addFields(t reflect.Type, object *spec.Schema, dependencies map[string]bool) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "" || !field.IsExported() && !field.Anonymous:
			continue
		case name == "" && field.Anonymous:
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				s.addFields(embedded, object, dependencies)
			}
			continue
		case name == "":
			name = field.Name
		}
		property := s.schema(field.Type, dependencies)
		property.Description = field.Tag.Get("description")
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			property.AddExtension("x-kubernetes-list-type", "map")
			property.AddExtension("x-kubernetes-list-map-keys", []any{key})
			property.AddExtension("x-kubernetes-patch-strategy", "merge")
			property.AddExtension("x-kubernetes-patch-merge-key", key)
		}
		object.Properties[name] = property
		if !strings.Contains(options, "omit") && field.Type.Kind() != reflect.Pointer {
			object.Required = append(object.Required, name)
		}
	}
}

// ownSchema has the schema of a type whose JSON is not that of its fields, as for openapi-gen.
type ownSchema interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

// schema returns the schema of a field of type t.
func (s *schemas) schema(t reflect.Type, dependencies map[string]bool) spec.Schema {
	if _, based := s.base[modelNameOf(t)]; !based && t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		if own, ok := reflect.Zero(t).Interface().(ownSchema); ok {
			return spec.Schema{SchemaProps: spec.SchemaProps{Type: own.OpenAPISchemaType(), Format: own.OpenAPISchemaFormat()}}
		}
		if encodesItself(t) {
			return anything()
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.schema(t.Elem(), dependencies)
	case reflect.String:
		return *spec.StringProperty()
	case reflect.Bool:
		return *spec.BooleanProperty()
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return *spec.Int64Property()
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint8, reflect.Uint16:
		return *spec.Int32Property()
	case reflect.Float32, reflect.Float64:
		return *spec.Float64Property()
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return *spec.StrFmtProperty("byte")
		}
		elements := s.schema(t.Elem(), dependencies)
		return *spec.ArrayProperty(&elements)
	case reflect.Map:
		values := s.schema(t.Elem(), dependencies)
		return *spec.MapProperty(&values)
	case reflect.Struct:
		if t.Name() == "" {
			object := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{}}}
			s.addFields(t, &object, dependencies)
			return object
		}
		name := s.add(t)
		dependencies[name] = true
		return spec.Schema{SchemaProps: spec.SchemaProps{Default: map[string]any{}, Ref: s.ref(name)}}
	}
	return anything()
}

// anything is the schema of each JSON value.
func anything() (all spec.Schema) {
	all.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	return all
}

// encodesItself reports whether the type has a JSON of its own.
func encodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

// checkType returns an error unless newObject returns a pointer to a struct that encodes to JSON.
func checkType(name string, newObject func() runtime.Object) error {
	if newObject == nil {
		return fmt.Errorf("%s is nil: it returns a pointer to an empty value", name)
	}
	v := reflect.ValueOf(newObject())
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("%s returns a %T that is nil, or no pointer to a struct", name, newObject())
	}
	if _, err := json.Marshal(newObject()); err != nil {
		return fmt.Errorf("%T cannot be encoded as JSON: %w", newObject(), err)
	}
	return nil
}

// checkFields returns the first field that upstream cannot compare, or convert for patches and
// server-side apply: it would panic, or convert the field to other JSON than encoding/json.
func checkFields(t reflect.Type, path string, checked map[reflect.Type]bool) error {
	if checked[t] {
		return nil
	}
	checked[t] = true
	own, kind := encodesItself(t), t.Kind()
	switch {
	case !own && (kind == reflect.Array || kind == reflect.Map && t.Key().Kind() != reflect.String ||
		kind == reflect.Uint64 || kind == reflect.Uintptr || kind == reflect.Pointer && t.Elem().Kind() == reflect.Pointer ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextMarshaler]())):
		return fmt.Errorf("%s cannot be patched: give %s MarshalJSON and UnmarshalJSON, or make it a string, int64, "+
			"single pointer, slice or map of strings", path, t)
	case kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map || kind == reflect.Array:
		return checkFields(t.Elem(), path, checked)
	case kind != reflect.Struct:
		return nil
	}
	for i := range t.NumField() {
		field := t.Field(i)
		path := path + "." + field.Name
		name, options, tagged := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case !field.IsExported():
			return fmt.Errorf("%s is not exported, and upstream does not compare it: use a type without it, such as metav1.Time",
				path)
		case own || name == "-":
		case name == "" && (!field.Anonymous || !tagged) || strings.Contains(options, "string"):
			return fmt.Errorf("%s needs a tag json with a name, or json:\",inline\" if it is embedded, and without "+
				"the option string", path)
		}
		if err := checkFields(field.Type, path, checked); err != nil {
			return err
		}
	}
	return nil
}
