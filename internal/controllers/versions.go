package controllers

import (
	"context"
	"fmt"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/storagemigration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/controller/storageversiongc"
	"k8s.io/kubernetes/pkg/controller/storageversionmigrator"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	kubefeatures "k8s.io/kubernetes/pkg/features"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// buildPolicyStatus builds the controller that type-checks ValidatingAdmissionPolicies.
// It reads schemas from the server's OpenAPI when a policy needs them.
// kube-controller-manager keeps the schemas of all built-in types in memory instead.
func buildPolicyStatus(_ context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	policies := admissionregistration.New(env.informers, "", nil).V1().ValidatingAdmissionPolicies()
	c, err := validatingadmissionpolicystatus.NewController(policies,
		client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), &validating.TypeChecker{
			SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: client.Discovery()},
			RestMapper:     env.mapper,
		})
	return func(ctx context.Context) { c.Run(ctx, workers) }, err
}

// checkStorageVersionMigrator checks what the migrator needs.
func checkStorageVersionMigrator(env *environment) notRun {
	switch {
	case !utilfeature.DefaultFeatureGate.Enabled(kubefeatures.StorageVersionMigrator):
		return "the feature gate StorageVersionMigrator is off"
	case !slices.Contains(env.selected, "garbage-collector-controller"):
		return "it needs the garbage-collector-controller, which is off"
	}
	return ""
}

// buildStorageVersionMigrator needs the garbage collector's graph for the
// resource versions of what it migrates.
func buildStorageVersionMigrator(ctx context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	const name = "storage-version-migrator-controller"
	crds, err := apiextensions.NewForConfig(env.accountConfig(name))
	if err != nil {
		return nil, fmt.Errorf("make the CRD client: %w", err)
	}
	objects, err := env.metadata(name)
	if err != nil {
		return nil, err
	}
	informer := storagemigration.New(env.informers, "", nil).V1beta1().StorageVersionMigrations()
	if err := env.watchNames(informer.Informer()); err != nil {
		return nil, fmt.Errorf("watch migrations: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(env.accountConfig(name))
	if err != nil {
		return nil, fmt.Errorf("make the dynamic client: %w", err)
	}
	migrate := storageversionmigrator.NewSVMController(ctx, client, dynamicClient, informer, name,
		migratedTypes{env.mapper}, env.graph)
	version := storageversionmigrator.NewResourceVersionController(ctx, client, client.Discovery(),
		newestObjects{objects}, informer, env.mapper)
	customResources := storageversionmigrator.NewCustomResourceController(ctx, client, informer,
		crds.ApiextensionsV1().CustomResourceDefinitions())
	return func(ctx context.Context) { concurrently(ctx, migrate.Run, version.Run, customResources.Run) }, nil
}

// migratedTypes is the mapper of the migrator. That ends the process with a nil pointer if the mapper
// does not have the type of a migration. So it gets the type without a version, for which there is
// no monitor, and tries again later.
type migratedTypes struct{ meta.ResettableRESTMapper }

// ResourcesFor implements [meta.RESTMapper].
func (m migratedTypes) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	found, err := m.ResettableRESTMapper.ResourcesFor(r)
	if meta.IsNoMatchError(err) {
		err = nil
	}
	return append(found, r), err
}

// newestObjects is the client from which a migration gets the resource version that the monitor of
// its type must reach: that of the newest object, which the monitor has. The monitor of a type
// without changes learns the store's, which upstream takes, with a bookmark, once a minute.
type newestObjects struct{ metadata.Interface }

// Resource implements [metadata.Interface].
func (n newestObjects) Resource(r schema.GroupVersionResource) metadata.Getter {
	return newestOf{n.Interface.Resource(r), r.GroupResource()}
}

type newestOf struct {
	metadata.Getter
	resource schema.GroupResource
}

// Namespace implements [metadata.Getter]: upstream names a namespace that does not exist.
func (n newestOf) Namespace(string) metadata.ResourceInterface { return n }

// List implements [metadata.ResourceInterface]. The list has only the resource version. Upstream
// ends the migration if that is no number.
func (n newestOf) List(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	newest := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	if kube.IsIgnored(n.resource) { // events: no monitor
		newest.ResourceVersion = "the garbage collector does not monitor this type"
		return newest, nil
	}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return n.Getter.List(ctx, options)
	})
	return newest, pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		version := object.(metav1.Object).GetResourceVersion()
		if order, err := resourceversion.CompareResourceVersion(version, newest.ResourceVersion); err != nil || order > 0 {
			newest.ResourceVersion = version
		}
		return nil
	})
}

func checkStorageVersionGC(*environment) notRun {
	for _, gate := range []featuregate.Feature{features.APIServerIdentity, features.StorageVersionAPI} {
		if !utilfeature.DefaultFeatureGate.Enabled(gate) {
			return "the feature gate " + string(gate) + " is off"
		}
	}
	return ""
}

func buildStorageVersionGC(ctx context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	c := storageversiongc.NewStorageVersionGC(ctx, client, coordination.New(env.informers, "", nil).V1().Leases(),
		apiserverinternal.New(env.informers, "", nil).V1alpha1().StorageVersions())
	return c.Run, nil
}
