package controlplane

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
)

// storageCodec is a codec that returns a panic of the program's functions as an error: watches of
// etcd decode in a goroutine of upstream's, where a panic would end the process.
type storageCodec struct{ runtime.Codec }

// Decode implements [runtime.Decoder].
func (c storageCodec) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (object runtime.Object, gvk *schema.GroupVersionKind, err error) {
	defer apiserver.PanicAsError(&err)
	if object, gvk, err = c.Codec.Decode(data, defaults, into); runtime.IsNotRegisteredError(err) {
		err = fmt.Errorf("%w: serve this version, with Resource.Versions", err)
	}
	return object, gvk, err
}

// withoutProtobuf offers clients no protobuf, which Go types without generated code do not have.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements [runtime.NegotiatedSerializer].
func (w withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(w.NegotiatedSerializer.SupportedMediaTypes()),
		func(info runtime.SerializerInfo) bool { return info.MediaType == runtime.ContentTypeProtobuf })
}
