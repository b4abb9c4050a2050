package kubernetes

import (
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/util/sets"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/controlplane"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/plugin/pkg/admission/scheduling/podgroupprotection"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection"
)

// Resources are the API versions that are on by default, and those that
// runtimeConfig can switch on: kube-apiserver's, with storage version migration
// on, as in the generic profile.
func Resources() *serverstorage.ResourceConfig {
	resources := controlplane.DefaultAPIResourceConfigSource()
	resources.EnableVersions(storagemigrationv1beta1.SchemeGroupVersion)
	return resources
}

// DefaultOffPlugins are the admission plugins that are off by default:
// kube-apiserver's, and those that add finalizers whose controllers do not run here.
// With them the deletion of a namespace with a volume claim would not end.
func DefaultOffPlugins() sets.Set[string] {
	return kubeoptions.DefaultOffAdmissionPlugins().Insert(storageobjectinuseprotection.PluginName,
		podgroupprotection.PluginName)
}
