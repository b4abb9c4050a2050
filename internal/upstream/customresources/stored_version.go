package customresources

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
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
// Breaks: CRDs are stored in a version that kube-apiserver, or an older release, does
//   not read. Tests: TestDefinitionsAreStoredCompletely.

// ProtobufStorage has CRDs stored as protobuf. CreateAPIExtensionsConfig of
// k8s.io/kubernetes/pkg/controlplane/apiserver prefers v1beta1, which has a schema once that all
// versions share.
type ProtobufStorage struct {
	genericregistry.RESTOptionsGetter
	// Codec is that of the stored CRDs.
	Codec runtime.Codec
}

// NewProtobufStorage wraps the getter.
func NewProtobufStorage(getter genericregistry.RESTOptionsGetter) (*ProtobufStorage, error) {
	codecs := apiextensionsapiserver.Codecs
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		return nil, fmt.Errorf("store CustomResourceDefinitions as %s: the API does not support it",
			runtime.ContentTypeProtobuf)
	}
	version := runtime.NewMultiGroupVersioner(apiextensionsv1beta1.SchemeGroupVersion,
		schema.GroupKind{Group: apiextensions.GroupName})
	return &ProtobufStorage{getter, versioning.NewDefaultingCodecForScheme(apiextensionsapiserver.Scheme,
		info.Serializer, codecs.UniversalDeserializer(), version, runtime.InternalGroupVersioner)}, nil
}

// GetRESTOptions implements [genericregistry.RESTOptionsGetter].
func (p *ProtobufStorage) GetRESTOptions(resource schema.GroupResource,
	example runtime.Object) (genericregistry.RESTOptions, error) {
	options, err := p.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	config := *options.StorageConfig
	config.Codec = p.Codec
	options.StorageConfig = &config
	return options, nil
}
