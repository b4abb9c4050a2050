package controlplane

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy has upstream's decisions about writes of a resource
// (k8s.io/apiserver/pkg/registry/rest).
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	resource *Resource
	// status is true for writes of the subresource status: they change the status only,
	// and others do not change it.
	status bool
	// whole is true for writes that change status and spec.
	whole bool
}

// NamespaceScoped implements [rest.RESTCreateStrategy].
func (s strategy) NamespaceScoped() bool { return !s.resource.ClusterScoped }

// AllowCreateOnUpdate implements [rest.RESTUpdateStrategy].
func (strategy) AllowCreateOnUpdate() bool { return false }

// AllowUnconditionalUpdate implements [rest.RESTUpdateStrategy].
func (strategy) AllowUnconditionalUpdate() bool { return true }

// Canonicalize implements [rest.RESTCreateStrategy].
func (strategy) Canonicalize(runtime.Object) {}

// PrepareForCreate implements [rest.RESTCreateStrategy]: a new object has no status.
func (s strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	if hasStatus(object) {
		fieldOf(object, "Status").SetZero()
	}
	metaOf(object).SetGeneration(1)
}

// PrepareForUpdate implements [rest.RESTUpdateStrategy].
func (s strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	if s.status {
		keepAllBut(object, old, "Status")
		return
	}
	if hasStatus(object) && !s.whole {
		fieldOf(object, "Status").Set(fieldOf(old, "Status"))
	}
	generation := metaOf(old).GetGeneration()
	if !sameContent(object, old) {
		generation++
	}
	metaOf(object).SetGeneration(generation)
}

// Validate implements [rest.RESTCreateStrategy]. Names are those that custom resources may have.
func (s strategy) Validate(ctx context.Context, object runtime.Object) field.ErrorList {
	return append(s.ValidateUpdate(ctx, object, nil), validation.ValidateObjectMetaAccessor(metaOf(object),
		s.NamespaceScoped(), validation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
}

// ValidateUpdate implements [rest.RESTUpdateStrategy].
func (s strategy) ValidateUpdate(ctx context.Context, object, old runtime.Object) field.ErrorList {
	if s.resource.Validate == nil {
		return nil
	}
	return s.resource.Validate(ctx, object, old)
}

// WarningsOnCreate implements [rest.RESTCreateStrategy].
func (s strategy) WarningsOnCreate(ctx context.Context, object runtime.Object) []string {
	return s.WarningsOnUpdate(ctx, object, nil)
}

// WarningsOnUpdate implements [rest.RESTUpdateStrategy].
func (s strategy) WarningsOnUpdate(ctx context.Context, object, old runtime.Object) []string {
	if s.resource.Warn == nil {
		return nil
	}
	return s.resource.Warn(ctx, object, old)
}

// GetResetFields implements [rest.ResetFieldsStrategy]: managers do not own what their
// writes do not change.
func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !hasStatus(s.resource.New()) {
		return nil
	}
	reset := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	if s.status {
		reset = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata"))
	}
	fields := map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(s.resource.Group + "/" + s.resource.Version): reset}
	for _, version := range s.resource.Versions {
		fields[fieldpath.APIVersion(s.resource.Group+"/"+version.Version)] = reset
	}
	return fields
}

// fieldOf returns a field of the struct that the object points to.
func fieldOf(object runtime.Object, name string) reflect.Value {
	return reflect.ValueOf(object).Elem().FieldByName(name)
}

// keepAllBut sets all fields but one to those of old. The managed fields stay those of the
// request.
func keepAllBut(object, old runtime.Object, changed string) {
	managed := metaOf(object).GetManagedFields()
	to, from := reflect.ValueOf(object).Elem(), reflect.ValueOf(old).Elem()
	for i := range to.NumField() {
		if name := to.Type().Field(i).Name; name != changed && name != "TypeMeta" {
			to.Field(i).Set(from.Field(i))
		}
	}
	metaOf(object).SetManagedFields(managed)
}

// sameContent reports whether only metadata and status differ.
func sameContent(object, old runtime.Object) bool {
	a, b := reflect.ValueOf(object).Elem(), reflect.ValueOf(old).Elem()
	for i := range a.NumField() {
		switch name := a.Type().Field(i).Name; {
		case name == "TypeMeta" || name == "ObjectMeta" || name == "Status":
		case !equality.Semantic.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			return false
		}
	}
	return true
}

// metaOf returns the metadata, which New has checked for.
func metaOf(object runtime.Object) metav1.Object {
	accessor, _ := meta.Accessor(object)
	return accessor
}
