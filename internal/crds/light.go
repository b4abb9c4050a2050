package crds

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	skipped := schemaFields
	if c.metadata {
		skipped = wholeMetadataFields
	}
	internal := &apiextensions.CustomResourceDefinition{}
	_, kind, err := c.stored.Decode(withoutFields(data, skipped), defaults, internal)
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

// Upstream fact: the protobuf fields of a stored CRD
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.CustomResourceDefinition
//   k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.CustomResourceDefinitionSpec
//   k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.CustomResourceDefinitionVersion
//   k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.CustomResourceDefinitionSpec
//   k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.CustomResourceDefinitionVersion
//   k8s.io/apimachinery/pkg/runtime.Unknown
// Why: schemas are left out by the numbers of their fields, before decoding. The
//   decoders of Kubernetes decode whole objects.
// Gain: CRDs without schemas: 57 MB of live heap with 613 CRDs (bench, crds).
// Breaks: a new field with the number of a skipped one is lost, or a new large
//   field stays in memory. TestStoredDefinitionsAreDecodedWithoutSchemas compares
//   all fields.

// fieldSet names protobuf fields to leave out: nil leaves the field out,
// otherwise it is a message of which some fields are left out.
type fieldSet map[protowire.Number]fieldSet

var (
	// versionFields are those of CustomResourceDefinitionVersion: schema,
	// additionalPrinterColumns, selectableFields.
	versionFields = fieldSet{4: nil, 6: nil, 9: nil}
	// specFields are those of CustomResourceDefinitionSpec: in v1beta1
	// validation, additionalPrinterColumns and selectableFields apply to all
	// versions; v1 does not use these numbers.
	specFields = fieldSet{5: nil, 7: versionFields, 8: nil, 11: nil}
	// schemaFields are those of CustomResourceDefinition, with
	// metadata.managedFields.
	schemaFields        = fieldSet{1: {17: nil}, 2: specFields}
	wholeMetadataFields = fieldSet{2: specFields}
)

// protobufPrefix begins what runtime/serializer/protobuf writes.
var protobufPrefix = []byte("k8s\x00")

// withoutFields leaves fields out of an object in Kubernetes' protobuf envelope
// (runtime.Unknown: the object is field 2), and schemas out of one in JSON. It returns
// malformed data unchanged: decoding it returns the error.
func withoutFields(data []byte, skipped fieldSet) []byte {
	message, ok := bytes.CutPrefix(data, protobufPrefix)
	if !ok {
		return withoutJSON(data)
	}
	out := append(make([]byte, 0, 2048), protobufPrefix...)
	if out, ok = appendWithout(out, message, fieldSet{2: skipped}); !ok {
		return data
	}
	return out
}

// appendWithout appends message to out without the skipped fields, and reports
// whether message is well-formed.
func appendWithout(out, message []byte, skipped fieldSet) ([]byte, bool) {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil, false
		}
		value := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if value < 0 {
			return nil, false
		}
		field := message[:tag+value]
		message = message[tag+value:]
		inner, listed := skipped[number]
		switch {
		case !listed:
			out = append(out, field...)
		case inner == nil: // left out
		case kind == protowire.BytesType:
			content, _ := protowire.ConsumeBytes(field[tag:])
			rewritten, ok := appendWithout(nil, content, inner)
			if !ok {
				return nil, false
			}
			out = protowire.AppendBytes(append(out, field[:tag]...), rewritten)
		default:
			return nil, false
		}
	}
	return out, true
}
