package upstream

import "testing"

type (
	inner struct{ count int }
	outer struct {
		direct  inner
		pointer *inner
		any     any
	}
)

// TestField: a field is found through structs, pointers and interfaces; another version of the
// owner is an error, not a panic.
func TestField(t *testing.T) {
	t.Parallel()
	owner := &outer{direct: inner{1}, pointer: &inner{2}, any: &inner{3}}
	for i, name := range []string{"direct", "pointer", "any"} {
		count, err := Field[int](owner, name, "count")
		if err != nil || *count != i+1 {
			t.Fatalf("%s: %v, %v", name, count, err)
		}
		*count = 9
	}
	if owner.direct.count+owner.pointer.count+owner.any.(*inner).count != 27 {
		t.Errorf("the fields were not set: %+v", owner)
	}
	if count, err := Field[int](&outer{}, "pointer", "count"); count != nil || err != nil {
		t.Errorf("behind a nil pointer: %v, %v", count, err)
	}
	for name, find := range map[string]func() (*int, error){
		"no such field":     func() (*int, error) { return Field[int](owner, "missing", "count") },
		"another type":      func() (*int, error) { return Field[int](owner, "direct") },
		"not a struct":      func() (*int, error) { return Field[int](owner, "direct", "count", "more") },
		"not in memory":     func() (*int, error) { return Field[int](outer{}, "direct", "count") },
		"behind an integer": func() (*int, error) { return Field[int](3, "count") },
	} {
		if _, err := find(); err == nil {
			t.Errorf("%s: found", name)
		}
	}
}
