package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
)

// inlineAdmission is an [Admission] as upstream's chain calls it.
type inlineAdmission struct {
	Admission
	groups []apiserver.Group // of the program
	log    *slog.Logger
}

// Handles implements [admission.Interface].
func (i inlineAdmission) Handles(operation admission.Operation) bool {
	return len(i.Operations) == 0 || slices.Contains(i.Operations, operation)
}

// Admit implements [admission.MutationInterface].
func (i inlineAdmission) Admit(ctx context.Context, attributes admission.Attributes,
	o admission.ObjectInterfaces) error {
	object := attributes.GetObject()
	changed, err := i.call(ctx, i.Mutate, attributes, o)
	if err != nil || changed == nil || changed == object {
		return err
	}
	o.GetObjectDefaulter().Default(changed)
	return o.GetObjectConvertor().Convert(changed, object, nil)
}

// Validate implements [admission.ValidationInterface].
func (i inlineAdmission) Validate(ctx context.Context, attributes admission.Attributes,
	o admission.ObjectInterfaces) error {
	_, err := i.call(ctx, i.Admission.Validate, attributes, o)
	return err
}

// versioned has the old object, as well, in the version of the request.
type versioned struct{ *admission.VersionedAttributes }

// GetOldObject implements [admission.Attributes].
func (v versioned) GetOldObject() runtime.Object { return v.VersionedOldObject }

// call calls the function, and returns the object it got: one of a built-in type in the version of
// the request, as upstream's are of internal types. It turns a panic into an error: upstream deletes
// the objects of a collection in goroutines of its own, where a panic would end the process.
func (i inlineAdmission) call(ctx context.Context, f func(context.Context, admission.Attributes) error,
	attributes admission.Attributes, o admission.ObjectInterfaces) (object runtime.Object, err error) {
	if f == nil {
		return nil, nil
	}
	given := attributes
	ofProgram := func(g apiserver.Group) bool { return g.Name() == attributes.GetResource().Group }
	if !slices.ContainsFunc(i.groups, ofProgram) {
		converted, err := admission.NewVersionedAttributes(attributes, attributes.GetKind(), o)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		given = versioned{converted}
	}
	defer func() {
		if cause := recover(); cause != nil {
			i.log.Error("the program's admission panicked", "name", i.Name, "panic", cause, "stack", string(debug.Stack()))
			err = apierrors.NewInternalError(fmt.Errorf("the admission %s panicked: %v", i.Name, cause))
		}
	}()
	return given.GetObject(), i.refusal(attributes, f(ctx, given))
}

// refusal turns an error that is no API status into a 403, as upstream's plugins do; upstream
// would answer 500 with the text. A status within another error may be about another object.
func (i inlineAdmission) refusal(attributes admission.Attributes, err error) error {
	if _, ok := err.(apierrors.APIStatus); ok || err == nil || //nolint:errorlint // not one within an error
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if i.Name != "" {
		err = fmt.Errorf("%s: %w", i.Name, err)
	}
	return admission.NewForbidden(attributes, err)
}
