package crds

import (
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// lighten drops from crd, in place, what takes memory and is for serving and
// documentation only: schemas, printer columns, selectable fields, managed fields and
// the last applied configuration.
func lighten(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.ManagedFields = nil
	delete(crd.Annotations, corev1.LastAppliedConfigAnnotation)
	dropSchemas(crd)
}

// dropSchemas drops the part of the specification that [lighten] drops.
func dropSchemas(crd *apiextensionsv1.CustomResourceDefinition) {
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		version.Schema, version.AdditionalPrinterColumns, version.SelectableFields = nil, nil, nil
	}
}

// toV1 converts what the storage holds. The result shares memory with crd.
func toV1(crd *apiextensions.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(crd, out, nil); err != nil {
		return nil, fmt.Errorf("convert CustomResourceDefinition %s to v1: %w", crd.Name, err)
	}
	return out, nil
}

// lightOf is a light copy of what the storage holds; it shares no memory with
// crd.
func lightOf(crd *apiextensions.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	copied := *crd
	copied.ManagedFields = nil
	copied.Spec.Validation, copied.Spec.AdditionalPrinterColumns, copied.Spec.SelectableFields = nil, nil, nil
	copied.Spec.Versions = slices.Clone(crd.Spec.Versions)
	for i := range copied.Spec.Versions {
		version := &copied.Spec.Versions[i]
		version.Schema, version.AdditionalPrinterColumns, version.SelectableFields = nil, nil, nil
	}
	light, err := toV1(copied.DeepCopy())
	if err != nil {
		return nil, err
	}
	lighten(light)
	return light, nil
}

// lightCodec decodes stored CRDs to v1 without schemas, which it skips in
// protobuf and JSON. It does not encode.
type lightCodec struct {
	// stored decodes to the internal version.
	stored runtime.Decoder
	// metadata keeps the whole metadata.
	metadata bool
}

// Decode implements [runtime.Decoder]. into must be a v1 CRD or nil.
func (c lightCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	internal := &apiextensions.CustomResourceDefinition{}
	_, kind, err := c.stored.Decode(customresources.WithoutSchemas(data, c.metadata), defaults, internal)
	if err != nil {
		return nil, kind, err
	}
	crd, err := toV1(internal)
	if err != nil {
		return nil, kind, err
	}
	dropSchemas(crd)
	if !c.metadata {
		lighten(crd)
	}
	if into == nil { // for a watch
		return crd, kind, nil
	}
	target, ok := into.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, kind, fmt.Errorf("decode a CustomResourceDefinition into %T: only v1 is supported", into)
	}
	*target = *crd
	return target, kind, nil
}

// Encode implements [runtime.Encoder].
func (lightCodec) Encode(obj runtime.Object, _ io.Writer) error {
	return fmt.Errorf("encode %T: light CustomResourceDefinitions are read-only", obj)
}

// Identifier implements [runtime.Encoder].
func (lightCodec) Identifier() runtime.Identifier { return "lightCustomResourceDefinition" }
