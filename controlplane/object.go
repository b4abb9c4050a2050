package controlplane

import (
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/util"
)

// Object is an object of a type that a program defines by its spec and its status, without
// generated code. Spec and Status are structs with JSON tags; struct{} is a type without the
// one or the other. Copies of exported fields are deep: DeepCopyInto is called where a field's type has it.
type Object[Spec, Status any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec,omitzero"`
	Status Status `json:"status,omitzero"`
}

// DeepCopyObject implements [runtime.Object].
func (o *Object[Spec, Status]) DeepCopyObject() runtime.Object { return deepCopy(o) }

// OpenAPIModelName implements [util.OpenAPIModelNamer].
func (Object[Spec, Status]) OpenAPIModelName() string { return modelName[Spec, Status]("Object") }

// List is the list of such objects.
type List[Spec, Status any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Object[Spec, Status] `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (l *List[Spec, Status]) DeepCopyObject() runtime.Object { return deepCopy(l) }

// OpenAPIModelName implements [util.OpenAPIModelNamer].
func (List[Spec, Status]) OpenAPIModelName() string { return modelName[Spec, Status]("List") }

// modelName returns the name of an instance of a generic type in OpenAPI. Go's own name of it
// has brackets and slashes.
func modelName[Spec, Status any](generic string) string {
	var parts []string
	for _, t := range []reflect.Type{reflect.TypeFor[Spec](), reflect.TypeFor[Status]()} {
		if t.Name() != "" {
			parts = append(parts, modelNameOf(t))
		}
	}
	return distinct(strings.Join(append(parts, generic), "."), reflect.TypeFor[Object[Spec, Status]]())
}

// modelNameOf returns the name of a Go type in OpenAPI.
func modelNameOf(t reflect.Type) string {
	model := reflect.New(t).Interface()
	if namer, ok := model.(util.OpenAPIModelNamer); ok {
		return namer.OpenAPIModelName()
	}
	return distinct(util.ToRESTFriendlyName(util.GetCanonicalTypeName(model)), t)
}

// modelNames has the Go type of each name in OpenAPI.
var modelNames sync.Map

// distinct extends the name if another type has it: local ones may, and instances with anonymous ones.
func distinct(name string, t reflect.Type) string {
	if of, _ := modelNames.LoadOrStore(name, t); of == t || name == "" {
		return name
	}
	return distinct(name+"2", t)
}

// deepCopy returns a deep copy of the object. Unexported fields are copied as they are.
func deepCopy[T any](object *T) *T {
	if object == nil {
		return nil
	}
	copied := *object
	deepen(reflect.ValueOf(&copied).Elem())
	return &copied
}

// deepen replaces what v shares with another value by copies.
func deepen(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		replace := reflect.New(v.Type().Elem())
		replace.Elem().Set(v.Elem())
		v.Set(replace)
		deepen(v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		replace := reflect.New(v.Elem().Type()).Elem()
		replace.Set(v.Elem())
		deepen(replace)
		v.Set(replace)
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		replace := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(replace, v)
		v.Set(replace)
		deepenElements(v)
	case reflect.Array:
		deepenElements(v)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		replace := reflect.MakeMapWithSize(v.Type(), v.Len())
		for entries := v.MapRange(); entries.Next(); {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(entries.Value())
			deepen(value)
			replace.SetMapIndex(entries.Key(), value)
		}
		v.Set(replace)
	case reflect.Struct:
		if copier := v.Addr().MethodByName("DeepCopyInto"); copier.IsValid() && copier.Type().NumIn() == 1 &&
			copier.Type().In(0) == v.Addr().Type() {
			source := reflect.New(v.Type())
			source.Elem().Set(v)
			source.MethodByName("DeepCopyInto").Call([]reflect.Value{v.Addr()})
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				deepen(v.Field(i))
			}
		}
	}
}

// deepenElements deepens each element, unless they are plain values.
func deepenElements(v reflect.Value) {
	switch v.Type().Elem().Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
		for i := range v.Len() {
			deepen(v.Index(i))
		}
	}
}
