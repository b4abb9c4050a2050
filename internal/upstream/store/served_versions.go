package store

import (
	"fmt"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	services "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	admissionregistration "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
)

// Upstream fact: types that are stored in another version than the API has
//
// Mirrors: k8s.io/kubernetes/pkg/kubeapiserver.NewStorageFactoryConfigEffectiveVersion
//   k8s.io/kubernetes/pkg/controlplane/apiserver.CreateAPIExtensionsConfig
//   k8s.io/kubernetes/pkg/controlplane/apiserver.CreateAggregatorConfig
// Why: history and undelete read stored values. A new version of a type is stored one
//   release later than it is served, so that a downgrade can read the objects; the older
//   version may be off by then.
// Gain: these objects are shown and brought back in the version that users know.
// Breaks: undelete says that the server does not have the version of an object.
//   TestServedVersions fails, and for definitions TestDecode and TestUndelete.

// servedVersions are the versions in the API, by the kind.
var servedVersions = map[schema.GroupKind]schema.GroupVersion{
	{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"}: apiextensionsv1.SchemeGroupVersion,
	{Group: apiregistrationv1.GroupName,
		Kind: "APIService"}: apiregistrationv1.SchemeGroupVersion,
	{Group: admissionregistrationv1.GroupName,
		Kind: "MutatingAdmissionPolicy"}: admissionregistrationv1.SchemeGroupVersion,
	{Group: admissionregistrationv1.GroupName,
		Kind: "MutatingAdmissionPolicyBinding"}: admissionregistrationv1.SchemeGroupVersion,
}

// conversions has the types of servedVersions in all versions.
var conversions = sync.OnceValue(func() *runtime.Scheme {
	types := runtime.NewScheme()
	definitions.Install(types)
	services.Install(types)
	admissionregistration.Install(types)
	return types
})

// ServedVersion returns the kind of a stored object in the version that the API has by
// default: for most types the stored one.
func ServedVersion(stored schema.GroupVersionKind) schema.GroupVersionKind {
	if served, known := servedVersions[stored.GroupKind()]; known {
		return served.WithKind(stored.Kind)
	}
	return stored
}

// ToServedVersion converts a stored object, whose kind is set, to its [ServedVersion].
func ToServedVersion(object runtime.Object) (runtime.Object, error) {
	stored := object.GetObjectKind().GroupVersionKind()
	served := ServedVersion(stored)
	if served == stored {
		return object, nil
	}
	for _, version := range []schema.GroupVersion{{Group: served.Group,
		Version: runtime.APIVersionInternal}, served.GroupVersion()} {
		var err error
		if object, err = conversions().ConvertToVersion(object, version); err != nil {
			return nil, fmt.Errorf("convert an object from %s to %s: %w", stored.GroupVersion(), served.GroupVersion(), err)
		}
	}
	return object, nil
}
