package crds

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func stored(context.Context, string) (bool, error) { return true, nil }

func filled() bool { return true }

func named(name string, names apiextensions.CustomResourceDefinitionNames) *apiextensions.CustomResourceDefinition {
	crd := &apiextensions.CustomResourceDefinition{}
	crd.Name, crd.Spec.Group, crd.Spec.Names = name, "example.com", names
	return crd
}

// TestNamesInUse: the catalog has widgets.example.com with all kinds of names.
func TestNamesInUse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		crd         *apiextensions.CustomResourceDefinition
		exists      bool
		established bool
	}{
		{"free", named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: "Gear", ListKind: "GearList"}), true, true},
		{"itself", named("widgets.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"}), true, true},
		{"singular", named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "widget", Kind: "Gear", ListKind: "GearList"}), true, false},
		{"short name", named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", ShortNames: []string{"g", "wd"}, Kind: "Gear", ListKind: "GearList"}), true, false},
		{"a short name that is a plural", named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", ShortNames: []string{"widgets"}, Kind: "Gear", ListKind: "GearList"}), true, false},
		{"kind", named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: "Widget", ListKind: "GearList"}), true, false},
		{"a kind that is a list kind", named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: "WidgetList", ListKind: "GearList"}), true, false},
		{"a kind that is a plural", named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: "widgets", ListKind: "GearList"}), true, true},
		{"of a CRD that is gone", named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: "Widget", ListKind: "GearList"}), false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCatalog()
			c.wrote(light("widgets", "example.com", "1", 5))
			n := newNames(c, func(context.Context, string) (bool, error) { return test.exists, nil }, filled)
			ctx, release := n.begin(t.Context())
			establishing{customresourcedefinition.NewStrategy(apiextensionsapiserver.Scheme)}.PrepareForCreate(ctx, test.crd)
			if got := apiextensions.IsCRDConditionTrue(test.crd, apiextensions.Established); got != test.established {
				t.Errorf("established: %t, conditions %+v", got, test.crd.Status.Conditions)
			}
			if got := test.crd.Status.AcceptedNames.Plural != ""; got != test.established {
				t.Errorf("accepted names: %+v", test.crd.Status.AcceptedNames)
			}
			if release(); len(n.reserved) != 0 {
				t.Error("names are still reserved")
			}
		})
	}
}

// TestInvalidNamesAreReportedOnce: not again for the accepted names, which are the same.
func TestInvalidNamesAreReportedOnce(t *testing.T) {
	t.Parallel()
	n := newNames(newCatalog(), stored, filled)
	ctx, release := n.begin(t.Context())
	defer release()
	strategy := establishing{customresourcedefinition.NewStrategy(apiextensionsapiserver.Scheme)}
	crd := named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: "Gear", ListKind: "GearList", Categories: []string{"A B"}})
	strategy.PrepareForCreate(ctx, crd)
	var fields []string
	for _, err := range strategy.Validate(ctx, crd) {
		if strings.Contains(err.Field, "ategories") {
			fields = append(fields, err.Field)
		}
	}
	if !slices.Equal(fields, []string{"spec.names.categories[0]"}) {
		t.Errorf("the category is refused in %v", fields)
	}
}

// TestReadOfOneCRDDelaysNoOther: while a reservation waits for etcd, other CRDs are created, and
// none takes its names.
func TestReadOfOneCRDDelaysNoOther(t *testing.T) {
	t.Parallel()
	c := newCatalog()
	c.wrote(light("widgets", "example.com", "1", 5))
	reading, read := make(chan struct{}), make(chan struct{})
	n := newNames(c, func(context.Context, string) (bool, error) {
		close(reading)
		<-read
		return false, nil // it is gone
	}, filled)
	first, taken := &reservation{names: n}, make(chan bool)
	kind := apiextensions.CustomResourceDefinitionNames{Plural: "gears", Kind: "Widget"}
	go func() { taken <- first.take(t.Context(), "gears.example.com", "example.com", kind) }()
	<-reading
	other := &reservation{names: n}
	if !other.take(t.Context(), "nuts.example.com", "example.com", apiextensions.CustomResourceDefinitionNames{Plural: "nuts", Kind: "Nut"}) {
		t.Error("other names are not free")
	}
	rival := &reservation{names: n}
	if rival.take(t.Context(), "cogs.example.com", "example.com", apiextensions.CustomResourceDefinitionNames{Plural: "cogs", Singular: "gears", Kind: "Cog"}) {
		t.Error("two CRDs take a name")
	}
	close(read)
	if !<-taken {
		t.Error("the names of a CRD that is gone are not free")
	}
	for _, r := range []*reservation{first, other, rival} {
		r.release()
	}
	if len(n.reserved) != 0 {
		t.Error("names are still reserved")
	}
}

// TestNamesAreNotTakenUntilAllAreKnown: at a start another CRD, which is not in
// the catalog yet, may have the names.
func TestNamesAreNotTakenUntilAllAreKnown(t *testing.T) {
	t.Parallel()
	known := false
	n := newNames(newCatalog(), stored, func() bool { return known })
	for _, known = range []bool{false, true} {
		crd := named("gears.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: "Gear", ListKind: "GearList"})
		ctx, release := n.begin(t.Context())
		establishing{customresourcedefinition.NewStrategy(apiextensionsapiserver.Scheme)}.PrepareForCreate(ctx, crd)
		if got := apiextensions.IsCRDConditionTrue(crd, apiextensions.Established); got != known || (crd.Status.AcceptedNames.Plural != "") != known {
			t.Errorf("all known %t: established %t, status %+v", known, got, crd.Status)
		}
		release()
	}
}

// TestStatusUpdatesDoNotTakeNames: the naming controller accepts no names that a CRD has, or that
// one which is being created will have.
func TestStatusUpdatesDoNotTakeNames(t *testing.T) {
	t.Parallel()
	c := newCatalog()
	c.wrote(light("widgets", "example.com", "1", 5))
	n := newNames(c, stored, filled)
	ctx, created := n.begin(t.Context())
	establishing{customresourcedefinition.NewStrategy(apiextensionsapiserver.Scheme)}.PrepareForCreate(ctx, named("nuts.example.com", apiextensions.CustomResourceDefinitionNames{Plural: "nuts", Kind: "Nut"}))
	old := named("gears.example.com", apiextensions.CustomResourceDefinitionNames{})
	for _, test := range []struct {
		name    string
		names   apiextensions.CustomResourceDefinitionNames
		refused bool
	}{
		{"nothing", apiextensions.CustomResourceDefinitionNames{}, false},
		{"free", apiextensions.CustomResourceDefinitionNames{Kind: "Gear"}, false},
		{"in use", apiextensions.CustomResourceDefinitionNames{Kind: "Widget"}, true},
		{"a short name in use", apiextensions.CustomResourceDefinitionNames{Kind: "Gear", ShortNames: []string{"wd"}}, true},
		{"of a creation in progress", apiextensions.CustomResourceDefinitionNames{Kind: "Nut"}, true},
	} {
		updated := old.DeepCopy()
		updated.Status.AcceptedNames = test.names
		r := &reservation{names: n}
		if _, err := r.guard(t.Context(), updated, old); apierrors.IsServiceUnavailable(err) != test.refused || err != nil && !test.refused {
			t.Errorf("%s: %v", test.name, err)
		}
		r.release()
	}
	if created(); len(n.reserved) != 0 {
		t.Error("names are still reserved")
	}
}
