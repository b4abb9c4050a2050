package customresources

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

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
// Gain: CRDs without schemas: 47 MB of live heap with 613 CRDs, and 62 MB with 2,452; an
//   empty server has 40 MB (bench, crds).
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
	// definitionFields are those of CustomResourceDefinition.
	definitionFields = fieldSet{2: specFields}
)

// protobufPrefix begins what runtime/serializer/protobuf writes.
var protobufPrefix = []byte("k8s\x00")

// WithoutSchemas leaves schemas, printer columns and selectable fields out of a CRD in
// Kubernetes' protobuf envelope (runtime.Unknown: the object is field 2). Other data is
// returned unchanged, such as JSON, in which kube-apiserver stores CRDs; decoding malformed
// data returns the error.
func WithoutSchemas(data []byte) []byte {
	message, ok := bytes.CutPrefix(data, protobufPrefix)
	if !ok {
		return data
	}
	out := append(make([]byte, 0, 2048), protobufPrefix...)
	if out, ok = appendWithout(out, message, fieldSet{2: definitionFields}); !ok {
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
