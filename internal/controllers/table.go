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

// workers is the number of workers of most controllers. kube-controller-manager has up to five:
// its requests take the network, and these do not. Each costs 5 kB in each server of a process.
const workers = 1

// table has every controller, by upstream's names
// (k8s.io/kubernetes/cmd/kube-controller-manager/names), in the order of their start.
// The first ones create the objects that every namespace has.
var table = []controller{
	{name: "serviceaccount-controller", needs: needs(serviceAccounts, namespacesGVR),
		account: "service-account-controller", build: buildServiceAccounts},
	{name: "root-ca-certificate-publisher-controller", needs: needs(configMaps, namespacesGVR),
		account: "root-ca-cert-publisher", build: buildRootCA},
	{name: "namespace-controller", needs: needs(namespacesGVR),
		account: "namespace-controller", build: buildNamespaces},
	{name: "garbage-collector-controller", account: garbageCollector, build: buildGarbageCollector},
	{name: "resourcequota-controller", needs: needs(resourceQuotas),
		account: "resourcequota-controller", build: buildResourceQuota},
	{name: "clusterrole-aggregation-controller", needs: needs(clusterRoles),
		account: "clusterrole-aggregation-controller", build: buildClusterRoleAggregation},
	{name: "custom-resource-roles-controller", needs: needs(clusterRoles),
		account: "clusterrole-aggregation-controller", build: buildCustomRoles},
	{name: "serviceaccount-token-controller", needs: needs(serviceAccounts, secrets), build: buildTokens},
	{name: "certificatesigningrequest-signing-controller", needs: needs(csrs), whenUsed: true,
		account: "certificate-controller", check: checkCSRSigning, build: buildCSRSigning},
	{name: "certificatesigningrequest-approving-controller", needs: needs(csrs), whenUsed: true,
		account: "certificate-controller", build: buildCSRApproving},
	{name: "certificatesigningrequest-cleaner-controller", needs: needs(csrs), whenUsed: true,
		account: "certificate-controller", build: buildCSRCleaner},
	{name: "validatingadmissionpolicy-status-controller", needs: needs(policies), whenUsed: true,
		account: "validatingadmissionpolicy-status-controller", build: buildPolicyStatus},
	{name: "storage-version-migrator-controller", needs: needs(migrations), whenUsed: true,
		account: "storage-version-migrator-controller", check: checkStorageVersionMigrator,
		build: buildStorageVersionMigrator},
	{name: "storageversion-garbage-collector-controller", needs: needs(storageVersions, leases),
		account: "storage-version-garbage-collector", check: checkStorageVersionGC, build: buildStorageVersionGC},
	{name: "bootstrap-signer-controller", off: true, needs: needs(secrets, configMaps),
		account: "bootstrap-signer", build: buildBootstrapSigner},
	{name: "token-cleaner-controller", off: true, needs: needs(secrets),
		account: "token-cleaner", build: buildTokenCleaner},
}

func needs(resources ...schema.GroupVersionResource) []schema.GroupVersionResource { return resources }
