package crds

import (
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	genericregistry "k8s.io/apiserver/pkg/registry/generic"
)

// Upstream fact: the version in which CRDs are stored
//
// Mirrors: k8s.io/kubernetes/pkg/controlplane/apiserver.CreateAPIExtensionsConfig
//   k8s.io/apiextensions-apiserver/pkg/cmd/server/options.NewCRDRESTOptionsGetter
// Why: the storage of CRDs is made here with protobuf instead of JSON, and must
//   have the version of kube-apiserver, which reads both encodings.
// Gain: schemas of stored CRDs can be skipped, and a database of kube-apiserver
//   can be used.
// Breaks: CRDs are stored in a version that kube-apiserver, or an older release,
//   does not read.

// protobufStorage has CRDs stored as protobuf, of which schemas can be skipped.
// kube-apiserver stores them as JSON and reads both. The version is that of kube-apiserver:
// CreateAPIExtensionsConfig of k8s.io/kubernetes/pkg/controlplane/apiserver
// prefers v1beta1, which has a schema once that all versions share.
type protobufStorage struct {
	genericregistry.RESTOptionsGetter
	codec runtime.Codec
}

func newProtobufStorage(getter genericregistry.RESTOptionsGetter) (*protobufStorage, error) {
	codecs := apiextensionsapiserver.Codecs
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		return nil, fmt.Errorf("store CustomResourceDefinitions as %s: the API does not support it", runtime.ContentTypeProtobuf)
	}
	version := runtime.NewMultiGroupVersioner(apiextensionsv1beta1.SchemeGroupVersion, schema.GroupKind{Group: apiextensions.GroupName})
	return &protobufStorage{getter, versioning.NewDefaultingCodecForScheme(apiextensionsapiserver.Scheme,
		info.Serializer, codecs.UniversalDeserializer(), version, runtime.InternalGroupVersioner)}, nil
}

// GetRESTOptions implements [genericregistry.RESTOptionsGetter].
func (p *protobufStorage) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (genericregistry.RESTOptions, error) {
	options, err := p.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	config := *options.StorageConfig
	config.Codec = p.codec
	options.StorageConfig = &config
	return options, nil
}

// lightJSON is a CustomResourceDefinition of v1beta1 or v1 without what
// [lighten] drops of the specification.
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
