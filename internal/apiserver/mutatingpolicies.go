package apiserver

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
)

// policyWrites starts the build of the OpenAPI documents, which the plugin needs, when a policy
// that mutates is written: servers build them only if they are needed.
type policyWrites struct{ *builder }

// Handles implements [admission.Interface].
func (policyWrites) Handles(admission.Operation) bool { return true }

// Validate implements [admission.ValidationInterface].
func (p policyWrites) Validate(_ context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if attributes.GetResource().GroupResource() == admissionregistrationv1.Resource("mutatingadmissionpolicies") {
		p.openAPI.requestBuild()
	}
	return nil
}
