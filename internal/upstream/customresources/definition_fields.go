package customresources

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// schemaFields are those of CustomResourceDefinition, with
	// metadata.managedFields.
	schemaFields        = fieldSet{1: {17: nil}, 2: specFields}
	wholeMetadataFields = fieldSet{2: specFields}
)

// protobufPrefix begins what runtime/serializer/protobuf writes.
var protobufPrefix = []byte("k8s\x00")

// WithoutSchemas leaves schemas, printer columns and selectable fields out of a stored CRD,
// and managed fields unless wholeMetadata is set. The CRD is in Kubernetes' protobuf
// envelope (runtime.Unknown: the object is field 2) or in JSON. Malformed data is returned
// unchanged: decoding it returns the error.
func WithoutSchemas(data []byte, wholeMetadata bool) []byte {
	skipped := schemaFields
	if wholeMetadata {
		skipped = wholeMetadataFields
	}
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

// lightJSON is a CustomResourceDefinition of v1beta1 or v1 without what
// WithoutSchemas leaves out of the specification.
type lightJSON struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Group                 string                                             `json:"group"`
		Version               string                                             `json:"version,omitempty"`
		Names                 apiextensionsv1beta1.CustomResourceDefinitionNames `json:"names"`
		Scope                 apiextensionsv1beta1.ResourceScope                 `json:"scope"`
		Subresources          *apiextensionsv1beta1.CustomResourceSubresources   `json:"subresources,omitempty"`
		Versions              []lightJSONVersion                                 `json:"versions,omitempty"`
		Conversion            json.RawMessage                                    `json:"conversion,omitempty"`
		PreserveUnknownFields *bool                                              `json:"preserveUnknownFields,omitempty"`
	} `json:"spec"`
	Status apiextensionsv1beta1.CustomResourceDefinitionStatus `json:"status,omitempty"`
}

// lightJSONVersion is a version of a [lightJSON].
type lightJSONVersion struct {
	Name               string                                           `json:"name"`
	Served             bool                                             `json:"served"`
	Storage            bool                                             `json:"storage"`
	Deprecated         bool                                             `json:"deprecated,omitempty"`
	DeprecationWarning *string                                          `json:"deprecationWarning,omitempty"`
	Subresources       *apiextensionsv1beta1.CustomResourceSubresources `json:"subresources,omitempty"`
}

// withoutJSON leaves schemas out of a JSON object. It returns malformed data unchanged:
// decoding it returns the error.
func withoutJSON(data []byte) []byte {
	light := &lightJSON{}
	if err := json.Unmarshal(data, light); err != nil {
		return data
	}
	out, err := json.Marshal(light)
	if err != nil {
		return data
	}
	return out
}
