package kube

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1alpha1 "k8s.io/api/authentication/v1alpha1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
)

// Upstream fact: the default API versions of a generic control plane
//
// Mirrors: k8s.io/kubernetes/pkg/controlplane.DefaultGenericAPIResourceConfigSource
//   k8s.io/kubernetes/pkg/controlplane.DefaultAPIResourceConfigSource
//   k8s.io/kubernetes/pkg/controlplane.stableAPIGroupVersionsEnabledByDefault
// Why: the package that has the list also has the registries of every workload.
// Gain: no optimisation: the profile generic serves no types that nothing runs.
// Breaks: a new stable version of a generic API is not served by default. Tests:
//   TestBuiltInResourcesAreComplete.

// DefaultResources are the API versions and resources that are on by default,
// and those that runtimeConfig can switch on. Storage version migration is on:
// with thousands of CRDs it is needed often, and its controller runs here.
func DefaultResources() *serverstorage.ResourceConfig {
	resources := serverstorage.NewResourceConfig()
	resources.EnableVersions(
		admissionregistrationv1.SchemeGroupVersion,
		authenticationv1.SchemeGroupVersion,
		authorizationv1.SchemeGroupVersion,
		certificatesv1.SchemeGroupVersion,
		coordinationv1.SchemeGroupVersion,
		corev1.SchemeGroupVersion,
		eventsv1.SchemeGroupVersion,
		flowcontrolv1.SchemeGroupVersion,
		rbacv1.SchemeGroupVersion,
		storagemigrationv1beta1.SchemeGroupVersion,
	)
	// The core group's other resources have no storage here; disabling them keeps
	// admission plugins from watching them.
	for _, resource := range []string{"bindings", "componentstatuses", "endpoints", "limitranges",
		"nodes", "persistentvolumeclaims",
		"persistentvolumes", "pods", "podtemplates", "replicationcontrollers", "services"} {
		resources.DisableResources(corev1.SchemeGroupVersion.WithResource(resource))
	}
	// Named although they are off, so that runtimeConfig can switch them on.
	resources.DisableVersions(
		admissionregistrationv1alpha1.SchemeGroupVersion,
		admissionregistrationv1beta1.SchemeGroupVersion,
		apiserverinternalv1alpha1.SchemeGroupVersion,
		authenticationv1alpha1.SchemeGroupVersion,
		authenticationv1beta1.SchemeGroupVersion,
		certificatesv1alpha1.SchemeGroupVersion,
		certificatesv1beta1.SchemeGroupVersion,
		coordinationv1alpha2.SchemeGroupVersion,
		coordinationv1beta1.SchemeGroupVersion,
	)
	return resources
}

// StoredTypes are the resources that the servers of the chain store, by
// group. Events are stored for both of their groups as those of the core group.
var StoredTypes = map[string][]string{
	"": {"configmaps", "events", "namespaces", "resourcequotas", "secrets", "serviceaccounts"},
	"admissionregistration.k8s.io": {"mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"validatingwebhookconfigurations"},
	"apiextensions.k8s.io":         {"customresourcedefinitions"},
	"apiregistration.k8s.io":       {"apiservices"},
	"certificates.k8s.io":          {"certificatesigningrequests", "clustertrustbundles", "podcertificaterequests"},
	"coordination.k8s.io":          {"leasecandidates", "leases"},
	"flowcontrol.apiserver.k8s.io": {"flowschemas", "prioritylevelconfigurations"},
	"internal.apiserver.k8s.io":    {"storageversions"},
	"rbac.authorization.k8s.io":    {"clusterrolebindings", "clusterroles", "rolebindings", "roles"},
	"storagemigration.k8s.io":      {"storageversionmigrations"},
}
