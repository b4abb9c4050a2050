package crds

import (
	"fmt"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

func light(name, group string, uid types.UID, version int) *apiextensionsv1.CustomResourceDefinition {
	crd := widgets()
	lighten(crd)
	crd.Name, crd.UID, crd.ResourceVersion, crd.Spec.Group = name+"."+group, uid, fmt.Sprint(version), group
	return crd
}

func TestCatalogOrdersWritesAndEvents(t *testing.T) {
	t.Parallel()
	type step func(*catalog)
	wrote := func(uid types.UID, version int) step {
		return func(c *catalog) { c.wrote(light("a", "example.com", uid, version)) }
	}
	seen := func(uid types.UID, version int) step {
		return func(c *catalog) { c.OnUpdate(nil, light("a", "example.com", uid, version)) }
	}
	deleted := func(uid types.UID, version int) step {
		return func(c *catalog) { c.OnDelete(light("a", "example.com", uid, version)) }
	}
	for _, test := range []struct {
		name    string
		steps   []step
		want    string   // the resource version of a.example.com, if any
		changes []string // of which listeners hear
	}{
		{"written", []step{wrote("1", 5)}, "5", []string{"-5"}},
		{"written, then seen", []step{wrote("1", 5), seen("1", 5)}, "5", []string{"-5"}},
		{"an older state is seen late", []step{wrote("1", 5), wrote("1", 7), seen("1", 5)}, "7", []string{"-5", "5-7"}},
		{"seen and deleted before the writer reports it", []step{seen("1", 5), deleted("1", 6), wrote("1", 5)}, "", []string{"-5", "5-"}},
		{"made again before the deletion is seen", []step{wrote("1", 5), wrote("2", 9), seen("1", 5), deleted("1", 8)}, "9", []string{"-5", "5-9"}},
		{"deleted", []step{seen("1", 5), deleted("1", 6)}, "", []string{"-5", "5-"}},
		{"an unknown one is deleted", []step{deleted("1", 6)}, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCatalog()
			var changes []string
			c.listen(func(before, after *apiextensionsv1.CustomResourceDefinition) {
				change := "-"
				if before != nil {
					change = before.ResourceVersion + change
				}
				if after != nil {
					change += after.ResourceVersion
				}
				changes = append(changes, change)
			})
			for _, step := range test.steps {
				step(c)
			}
			got := ""
			if crd := c.get("a.example.com"); crd != nil {
				got = crd.ResourceVersion
			}
			if group := c.group("example.com"); got != test.want || (len(group) == 1) != (got != "") || c.size() != len(group) {
				t.Errorf("got version %q, %d in the group, %d in all; want version %q", got, len(group), c.size(), test.want)
			}
			if !slices.Equal(changes, test.changes) {
				t.Errorf("changes: got %q, want %q", changes, test.changes)
			}
		})
	}
}
