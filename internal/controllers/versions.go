package controllers

import (
	"context"
	"fmt"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/controller/storageversiongc"
	"k8s.io/kubernetes/pkg/controller/storageversionmigrator"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	kubefeatures "k8s.io/kubernetes/pkg/features"
)

// buildPolicyStatus builds the controller that type-checks ValidatingAdmissionPolicies.
// It reads schemas from the server's OpenAPI when a policy needs them.
// kube-controller-manager keeps the schemas of all built-in types in memory instead.
func buildPolicyStatus(_ context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	policies := env.config.Informers.Admissionregistration().V1().ValidatingAdmissionPolicies()
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
	informer := env.config.Informers.Storagemigration().V1beta1().StorageVersionMigrations()
	if err := env.watchNames(informer.Informer()); err != nil {
		return nil, fmt.Errorf("watch migrations: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(env.accountConfig(name))
	if err != nil {
		return nil, fmt.Errorf("make the dynamic client: %w", err)
	}
	migrate := storageversionmigrator.NewSVMController(ctx, client, dynamicClient, informer, name, env.mapper, env.graph)
	version := storageversionmigrator.NewResourceVersionController(ctx, client, client.Discovery(), objects, informer,
		env.mapper)
	customResources := storageversionmigrator.NewCustomResourceController(ctx, client, informer,
		crds.ApiextensionsV1().CustomResourceDefinitions())
	return func(ctx context.Context) { concurrently(ctx, migrate.Run, version.Run, customResources.Run) }, nil
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
	informers := env.config.Informers
	c := storageversiongc.NewStorageVersionGC(ctx, client, informers.Coordination().V1().Leases(),
		informers.Internal().V1alpha1().StorageVersions())
	return c.Run, nil
}
