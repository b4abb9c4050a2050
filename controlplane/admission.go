package controlplane

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/admission"
)

// inlineAdmission is an [Admission] as upstream's chain calls it.
type inlineAdmission struct{ Admission }

// Handles implements [admission.Interface].
func (i inlineAdmission) Handles(operation admission.Operation) bool {
	return len(i.Operations) == 0 || slices.Contains(i.Operations, operation)
}

// Admit implements [admission.MutationInterface].
func (i inlineAdmission) Admit(ctx context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if i.Mutate == nil {
		return nil
	}
	return i.Mutate(ctx, attributes)
}

// Validate implements [admission.ValidationInterface].
func (i inlineAdmission) Validate(ctx context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if i.Admission.Validate == nil {
		return nil
	}
	return i.Admission.Validate(ctx, attributes)
}
