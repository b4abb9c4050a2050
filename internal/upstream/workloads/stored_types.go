package workloads

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/kubeapiserver"
)

// Upstream fact: where kube-apiserver stores the types of this profile
//
// Mirrors: k8s.io/kubernetes/pkg/kubeapiserver.SpecialDefaultResourcePrefixes
//   k8s.io/apiserver/pkg/server/storage.DefaultStorageFactory.ResourcePrefix
// Why: a server of the profile generic must not serve a store that holds objects
//   of types that it lacks: their namespaces would be deleted without them.
// Gain: a start with the wrong profile is refused, with the names of the objects,
//   for the price of one read.
// Breaks: objects of a new type are not found. TestStoredTypesAreComplete fails.

// StoredTypes are the types that only this profile stores, by their group, without
// [IPAddresses].
var StoredTypes = map[string][]string{
	"": {"endpoints", "limitranges", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
		"replicationcontrollers", "services"},
	"apps":              {"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"},
	"autoscaling":       {"horizontalpodautoscalers"},
	"batch":             {"cronjobs", "jobs"},
	"discovery.k8s.io":  {"endpointslices"},
	"networking.k8s.io": {"ingressclasses", "ingresses", "networkpolicies", "servicecidrs"},
	"node.k8s.io":       {"runtimeclasses"},
	"policy":            {"poddisruptionbudgets"},
	"resource.k8s.io": {"deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates",
		"resourcepoolstatusrequests", "resourceslices"},
	"scheduling.k8s.io": {"podgroups", "priorityclasses", "workloads"},
	"storage.k8s.io": {"csidrivers", "csinodes", "csistoragecapacities", "storageclasses",
		"volumeattachments", "volumeattributesclasses"},
}

// IPAddresses is a type whose objects the server makes for services.
var IPAddresses = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}

// OwnObjects has the keys of the objects that a server of this profile creates by itself.
var OwnObjects = []string{
	"endpointslices/default/kubernetes",
	"priorityclasses/system-cluster-critical",
	"priorityclasses/system-node-critical",
	ServiceCIDR,
	"services/endpoints/default/kubernetes",
	"services/specs/default/kubernetes",
}

// ServiceCIDR is the key of an object that each store has which was used with this
// profile.
const ServiceCIDR = "servicecidrs/" + defaultservicecidr.DefaultServiceCIDRName

// KeyPrefix returns the prefix of the resource's keys below the common prefix.
func KeyPrefix(resource schema.GroupResource) string {
	if special, ok := kubeapiserver.SpecialDefaultResourcePrefixes[resource]; ok {
		return special
	}
	return resource.Resource
}
