package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	services "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// storedTypes are those that Kubernetes stores in protobuf.
var storedTypes = sync.OnceValues(func() (*runtime.Scheme, error) {
	types := runtime.NewScheme()
	definitions.Install(types)
	services.Install(types)
	if err := scheme.AddToScheme(types); err != nil {
		return nil, fmt.Errorf("collect the types of Kubernetes: %w", err)
	}
	return types, nil
})

// decode returns the object of a value in plain text.
func decode(plain []byte) (*unstructured.Unstructured, error) {
	if store.IsProtobuf(plain) {
		object, err := decodeProtobuf(plain)
		if err == nil {
			object, err = store.ToServedVersion(object)
		}
		if err != nil {
			return nil, err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("convert an object: %w", err)
		}
		return &unstructured.Unstructured{Object: content}, nil
	}
	if !bytes.HasPrefix(plain, []byte("{")) {
		return nil, errNotAnObject
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(plain); err != nil {
		return nil, fmt.Errorf("decode an object: %w", err)
	}
	return object, nil
}

// errNotAnObject means that a key has no object of Kubernetes.
var errNotAnObject = errors.New("it is neither protobuf nor JSON of Kubernetes")

// decodeProtobuf returns an object in the version that is stored.
func decodeProtobuf(plain []byte) (runtime.Object, error) {
	types, err := storedTypes()
	if err != nil {
		return nil, err
	}
	object, gvk, err := protobuf.NewSerializer(types, types).Decode(plain, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode an object: %w", err)
	}
	object.GetObjectKind().SetGroupVersionKind(*gvk)
	return object, nil
}

// decodeMetadata returns the metadata of a value in plain text.
func decodeMetadata(plain []byte) (*metav1.PartialObjectMetadata, error) {
	if !store.IsProtobuf(plain) {
		if !bytes.HasPrefix(plain, []byte("{")) {
			return nil, errNotAnObject
		}
		object := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(plain, object); err != nil {
			return nil, fmt.Errorf("decode an object: %w", err)
		}
		return object, nil
	}
	object, err := decodeProtobuf(plain)
	if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, errNotAnObject
	}
	partial := meta.AsPartialObjectMetadata(accessor)
	partial.SetGroupVersionKind(store.ServedVersion(object.GetObjectKind().GroupVersionKind()))
	return partial, nil
}
