package upstream

import (
	"fmt"
	"reflect"
	"strings"
)

// Field returns a field of an owner, exported or not, by the names of the fields that lead to it
// through structs, pointers and interfaces. It returns nil if one of these is nil, and an error
// if the library has no such field of that type.
func Field[T any](owner any, names ...string) (*T, error) {
	value := reflect.ValueOf(owner)
	for _, name := range names {
		for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
			if value.IsNil() {
				return nil, nil
			}
			value = value.Elem()
		}
		if value.Kind() != reflect.Struct {
			value = reflect.Value{}
			break
		}
		value = value.FieldByName(name)
	}
	if !value.IsValid() || !value.CanAddr() || value.Type() != reflect.TypeFor[T]() {
		return nil, fmt.Errorf("find the field %s of %T: this build mixes versions of libraries; build it with the "+
			"versions in its go.mod", strings.Join(names, "."), owner)
	}
	return (*T)(value.Addr().UnsafePointer()), nil
}
