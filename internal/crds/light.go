package crds

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// lighten drops from crd, in place, what takes memory and is for serving and
// documentation only: schemas, printer columns, selectable fields, managed fields and
// the last applied configuration.
func lighten(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.ManagedFields = nil
	delete(crd.Annotations, corev1.LastAppliedConfigAnnotation)
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		version.Schema, version.AdditionalPrinterColumns, version.SelectableFields = nil, nil, nil
	}
}

// dropSchemas drops, in place, what is for serving and documentation only.
func dropSchemas(crd *apiextensions.CustomResourceDefinition) {
	crd.Spec.Validation, crd.Spec.AdditionalPrinterColumns, crd.Spec.SelectableFields = nil, nil, nil
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		version.Schema, version.AdditionalPrinterColumns, version.SelectableFields = nil, nil, nil
	}
}

// toV1 converts what the storage holds. The result shares memory with crd.
func toV1(crd *apiextensions.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(crd, out,
		nil); err != nil {
		return nil, fmt.Errorf("convert CustomResourceDefinition %s to v1: %w", crd.Name, err)
	}
	return out, nil
}

// lightOf is a light copy of what the storage holds; it shares no memory with
// crd.
func lightOf(crd *apiextensions.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	copied := *crd
	copied.ManagedFields = nil
	copied.Spec.Versions = slices.Clone(crd.Spec.Versions)
	dropSchemas(&copied)
	light, err := toV1(copied.DeepCopy())
	if err != nil {
		return nil, err
	}
	lighten(light)
	return light, nil
}
