package controllers

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	configMaps      = corev1.SchemeGroupVersion.WithResource("configmaps")
	namespacesGVR   = corev1.SchemeGroupVersion.WithResource("namespaces")
	resourceQuotas  = corev1.SchemeGroupVersion.WithResource("resourcequotas")
	secrets         = corev1.SchemeGroupVersion.WithResource("secrets")
	serviceAccounts = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	clusterRoles    = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	csrs            = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
	leases          = coordinationv1.SchemeGroupVersion.WithResource("leases")
	policies        = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
	migrations      = storagemigrationv1beta1.SchemeGroupVersion.WithResource("storageversionmigrations")
	storageVersions = apiserverinternalv1alpha1.SchemeGroupVersion.WithResource("storageversions")
)

// table has every controller, by upstream's names
// (k8s.io/kubernetes/cmd/kube-controller-manager/names), in the order of their start.
// The first ones create the objects that every namespace has.
var table = []controller{
	{name: "serviceaccount-controller", needs: needs(serviceAccounts, namespacesGVR), build: buildServiceAccounts},
	{name: "root-ca-certificate-publisher-controller", needs: needs(configMaps, namespacesGVR), build: buildRootCA},
	{name: "namespace-controller", needs: needs(namespacesGVR), build: buildNamespaces},
	{name: "garbage-collector-controller", build: buildGarbageCollector},
	{name: "resourcequota-controller", needs: needs(resourceQuotas), build: buildResourceQuota},
	{name: "clusterrole-aggregation-controller", needs: needs(clusterRoles), build: buildClusterRoleAggregation},
	{name: "custom-resource-roles-controller", needs: needs(clusterRoles), build: buildCustomRoles},
	{name: "serviceaccount-token-controller", needs: needs(serviceAccounts, secrets), build: buildTokens},
	{name: "certificatesigningrequest-signing-controller", needs: needs(csrs), build: buildCSRSigning},
	{name: "certificatesigningrequest-approving-controller", needs: needs(csrs), build: buildCSRApproving},
	{name: "certificatesigningrequest-cleaner-controller", needs: needs(csrs), build: buildCSRCleaner},
	{name: "validatingadmissionpolicy-status-controller", needs: needs(policies), build: buildPolicyStatus},
	{name: "storage-version-migrator-controller", needs: needs(migrations), build: buildStorageVersionMigrator},
	{name: "storageversion-garbage-collector-controller", needs: needs(storageVersions, leases),
		build: buildStorageVersionGC},
	{name: "bootstrap-signer-controller", off: true, needs: needs(secrets, configMaps), build: buildBootstrapSigner},
	{name: "token-cleaner-controller", off: true, needs: needs(secrets), build: buildTokenCleaner},
}

func needs(resources ...schema.GroupVersionResource) []schema.GroupVersionResource { return resources }
