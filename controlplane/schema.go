package controlplane

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

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
		_, based := s.base[modelNameOf(t)]
		if own, ok := reflect.Zero(t).Interface().(ownSchema); ok && !based {
			return spec.Schema{SchemaProps: spec.SchemaProps{Type: own.OpenAPISchemaType(), Format: own.OpenAPISchemaFormat()}}
		}
		name := s.add(t)
		dependencies[name] = true
		return spec.Schema{SchemaProps: spec.SchemaProps{Default: map[string]any{}, Ref: s.ref(name)}}
	}
	anything := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	anything.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	return anything
}

// checkType returns an error unless t is a pointer to a struct that encodes to JSON.
func checkType(object any) error {
	t := reflect.TypeOf(object)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("%T is not a pointer to a struct", object)
	}
	if _, err := json.Marshal(object); err != nil {
		return fmt.Errorf("%T cannot be encoded as JSON: %w", object, err)
	}
	return nil
}
