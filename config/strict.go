package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	configurationType = reflect.TypeFor[ServerConfiguration]()
	quantityType      = reflect.TypeFor[resource.Quantity]()
	durationType      = reflect.TypeFor[Duration]()
	scalarType        = reflect.TypeFor[Scalar]()
)

// walker compares a YAML tree with the Go types that it is decoded into. The decoders
// below sigs.k8s.io/yaml read JSON, in which the lines of mistakes are lost.
type walker struct {
	source Source
	errs   []error
}

func (w *walker) fail(node *yamlv3.Node, path, format string, args ...any) {
	w.errs = append(w.errs, &FieldError{File: w.source.file, Line: node.Line, Path: path,
		Message: fmt.Sprintf(format, args...)})
}

// typeMeta checks apiVersion and kind. It runs before the check for unknown
// fields, which would list every field of a file of another kind.
func (w *walker) typeMeta(root *yamlv3.Node) {
	want := []struct{ key, value string }{{"apiVersion", APIVersion}, {"kind", Kind}}
	for _, field := range want {
		found := false
		for i := 0; i+1 < len(root.Content); i += 2 {
			if root.Content[i].Value != field.key {
				continue
			}
			found = true
			if value := root.Content[i+1]; value.Value != field.value {
				w.fail(value, field.key, "%q is not supported; use %q", value.Value, field.value)
			}
		}
		if !found {
			w.fail(root, field.key, "missing; add %s: %s", field.key, field.value)
		}
	}
}

// keys calls visit for each key of a mapping and its path; a key that is there
// twice is an error.
func (w *walker) keys(node *yamlv3.Node, path string, visit func(key, value *yamlv3.Node, at string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := join(path, key.Value)
		if first, ok := seen[key.Value]; ok {
			w.fail(key, at, "set twice; it is set in line %d already", first)
			continue
		}
		seen[key.Value] = key.Line
		visit(key, value, at)
	}
}

// object checks the keys of a mapping against the fields of a struct.
func (w *walker) object(node *yamlv3.Node, t reflect.Type, path string) {
	fields := jsonFields(t)
	w.keys(node, path, func(key, value *yamlv3.Node, at string) {
		fieldType, ok := fields[key.Value]
		if !ok {
			names := slices.Sorted(maps.Keys(fields))
			w.fail(key, at, "unknown field%s; allowed here: %s", Suggest(key.Value, names), strings.Join(names, ", "))
			return
		}
		w.source.lines[at] = key.Line
		w.value(value, fieldType, at)
	})
}

// value checks one value against the Go type it will become.
func (w *walker) value(node *yamlv3.Node, t reflect.Type, path string) {
	for node.Kind == yamlv3.AliasNode {
		node = node.Alias
	}
	if node.Tag == "!!null" {
		return
	}
	switch {
	case t == quantityType:
		w.quantity(node, path)
	case t == durationType:
		if _, err := ParseDuration(node.Value); node.Tag != "!!str" || err != nil {
			w.fail(node, path, "%s is not a duration; write a number with a unit, as 90s, 12h or 30d", describe(node))
		}
	case t == scalarType && node.Kind == yamlv3.SequenceNode && strings.HasPrefix(path, "apiServer.flags.") &&
		!strings.HasSuffix(path, "]"): // no list in a list
		if len(node.Content) == 0 {
			w.fail(node, path, "has no items; write one, or remove the field")
		}
		w.value(node, reflect.TypeFor[[]Scalar](), path)
	case t == scalarType:
		if node.Kind != yamlv3.ScalarNode {
			w.fail(node, path, "must be a string, number or boolean, got %s", describe(node))
		}
	case t.Kind() == reflect.Struct:
		if w.is(node, yamlv3.MappingNode, path, "a mapping") {
			w.object(node, t, path)
		}
	case t.Kind() == reflect.Map:
		if w.is(node, yamlv3.MappingNode, path, "a mapping") {
			w.entries(node, t.Elem(), path)
		}
	case t.Kind() == reflect.Slice:
		if w.is(node, yamlv3.SequenceNode, path, "a list") {
			for i, item := range node.Content {
				at := fmt.Sprintf("%s[%d]", path, i)
				w.source.lines[at] = item.Line
				if item.Tag == "!!null" {
					w.fail(item, at, "has no value; write one, or remove the item")
				}
				w.value(item, t.Elem(), at)
			}
		}
	case t.Kind() == reflect.String:
		w.scalar(node, "!!str", path, "a string (put it in quotes)")
	case t.Kind() == reflect.Bool:
		w.scalar(node, "!!bool", path, "true or false")
	case t.Kind() == reflect.Int:
		w.scalar(node, "!!int", path, "a whole number")
	default:
		w.fail(node, path, "has a type that the loader does not support: %s", t)
	}
}

// entries checks the values of a map whose keys are free.
func (w *walker) entries(node *yamlv3.Node, elem reflect.Type, path string) {
	w.keys(node, path, func(key, value *yamlv3.Node, at string) {
		w.source.lines[at] = key.Line
		w.value(value, elem, at)
	})
}

func (w *walker) is(node *yamlv3.Node, kind yamlv3.Kind, path, want string) bool {
	if node.Kind != kind {
		w.fail(node, path, "must be %s, got %s", want, describe(node))
		return false
	}
	return true
}

func (w *walker) scalar(node *yamlv3.Node, tag, path, want string) {
	if node.Kind != yamlv3.ScalarNode || node.Tag != tag {
		w.fail(node, path, "must be %s, got %s", want, describe(node))
	}
}

func (w *walker) quantity(node *yamlv3.Node, path string) {
	if node.Kind == yamlv3.ScalarNode {
		if _, err := resource.ParseQuantity(node.Value); err == nil {
			return
		}
		// 8Gb, 8GB and 8GiB are what people write for 8Gi.
		trimmed := strings.TrimRight(node.Value, "bB")
		trimmed = strings.ToUpper(strings.TrimSuffix(trimmed, "i"))
		if _, err := resource.ParseQuantity(trimmed + "i"); err == nil {
			w.fail(node, path, "%q is not a quantity; did you mean %q?", node.Value, trimmed+"i")
			return
		}
	}
	w.fail(node, path, "%s is not a quantity; write a number with a unit, as 512Mi or 8Gi", describe(node))
}

// describe describes a node of the file, for "got ...".
func describe(node *yamlv3.Node) string {
	switch node.Kind {
	case yamlv3.MappingNode:
		return "a mapping"
	case yamlv3.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", node.Value)
}

// jsonFields maps the JSON names of a struct's fields, inlined ones included,
// to their types.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			maps.Copy(fields, jsonFields(field.Type))
		case name != "":
			fields[name] = field.Type
		}
	}
	return fields
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
