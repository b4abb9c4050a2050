package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// inlineAdmission is an [Admission] as upstream's chain calls it.
type inlineAdmission struct {
	Admission
	log *slog.Logger
}

// Handles implements [admission.Interface].
func (i inlineAdmission) Handles(operation admission.Operation) bool {
	return len(i.Operations) == 0 || slices.Contains(i.Operations, operation)
}

// Admit implements [admission.MutationInterface].
func (i inlineAdmission) Admit(ctx context.Context, attributes admission.Attributes,
	_ admission.ObjectInterfaces) error {
	return i.call(ctx, i.Mutate, attributes)
}

// Validate implements [admission.ValidationInterface].
func (i inlineAdmission) Validate(ctx context.Context, attributes admission.Attributes,
	_ admission.ObjectInterfaces) error {
	return i.call(ctx, i.Admission.Validate, attributes)
}

// call turns a panic of the function into an error: upstream deletes the objects of a collection
// in goroutines of its own, where a panic would end the process.
func (i inlineAdmission) call(ctx context.Context, f func(context.Context, admission.Attributes) error,
	attributes admission.Attributes) (err error) {
	if f == nil {
		return nil
	}
	defer func() {
		if cause := recover(); cause != nil {
			i.log.Error("the program's admission panicked", "name", i.Name, "panic", cause, "stack", string(debug.Stack()))
			err = apierrors.NewInternalError(fmt.Errorf("the admission %s panicked: %v", i.Name, cause))
		}
	}()
	return i.refusal(attributes, f(ctx, attributes))
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
