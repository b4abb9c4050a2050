package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingadmissionpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingadmissionpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server/resourceconfig"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	certapproval "k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/ctbattest"
	certsigning "k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	certsubjectrestriction "k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	serviceaccountadmission "k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// runtimeConfig replaces the key of the core group, which has no name, by upstream's
// (resourceconfig.MergeAPIResourceConfigs): "/v1/secrets" for "v1/secrets".
func runtimeConfig(configured map[string]config.Scalar) cliflag.ConfigurationMap {
	keyed := make(cliflag.ConfigurationMap, len(configured))
	for key, value := range configured {
		if key == "v1" || strings.HasPrefix(key, "v1/") {
			key = "/" + key
		}
		keyed[key] = string(value)
	}
	return keyed
}

// essentials are the resources that the server needs, and why.
var essentials = []struct {
	resource schema.GroupVersionResource
	why      string
}{
	{corev1.SchemeGroupVersion.WithResource("namespaces"), "namespaced objects need them"},
	{corev1.SchemeGroupVersion.WithResource("configmaps"), "the server publishes its CAs in config maps"},
	{corev1.SchemeGroupVersion.WithResource("secrets"), "the authentication of service accounts reads them"},
	{corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "the authentication of service accounts reads them"},
	{apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), "ServiceEndpoints are defined by one"},
	{apiregistrationv1.SchemeGroupVersion.WithResource("apiservices"), "the aggregator routes requests by them"},
}

// gated are resources without which the server is never ready while a feature gate is on. Their
// versions are then on by default, also in control planes, which have the gates of the process.
var gated = []struct {
	gate     featuregate.Feature
	resource schema.GroupVersionResource
}{
	{features.CoordinatedLeaderElection, coordinationv1beta1.SchemeGroupVersion.WithResource("leasecandidates")},
	{features.StorageVersionAPI, apiserverinternalv1alpha1.SchemeGroupVersion.WithResource("storageversions")},
}

// served has the resources that the three servers of the chain serve.
type served []*serverstorage.ResourceConfig

// served merges the configuration into the defaults of the servers, as each of them
// does.
func (o *Options) served() (served, error) {
	var all served
	for _, server := range []struct {
		defaults *serverstorage.ResourceConfig
		registry resourceconfig.GroupVersionRegistry
	}{
		{o.profile.resources(), legacyscheme.Scheme},
		{apiextensionsapiserver.DefaultAPIResourceConfigSource(), apiextensionsapiserver.Scheme},
		{aggregatorapiserver.DefaultAPIResourceConfigSource(), aggregatorscheme.Scheme},
	} {
		merged, err := resourceconfig.MergeAPIResourceConfigs(server.defaults,
			o.upstream.APIEnablement.RuntimeConfig, server.registry)
		if err != nil {
			return nil, &config.FieldError{Path: "apiServer.runtimeConfig", Message: err.Error()}
		}
		all = append(all, merged)
	}
	return all, nil
}

func (s served) has(resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(s, func(c *serverstorage.ResourceConfig) bool { return c.ResourceEnabled(resource) })
}

// matchEnablement returns an error if the configuration disables what the server needs,
// and disables the admission plugins whose resources are not served. It sets the feature
// gates before, by which some are served.
func (o *Options) matchEnablement() error {
	if err := o.upstream.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return &config.FieldError{Path: "apiServer.featureGates", Message: err.Error()}
	}
	served, err := o.served()
	if err != nil {
		return err
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, &config.FieldError{Path: "apiServer.runtimeConfig", Message: fmt.Sprintf(format, args...)})
	}
	for _, essential := range essentials {
		if !served.has(essential.resource) {
			refuse("%s cannot be disabled: %s", essential.resource.GroupResource(), essential.why)
		}
	}
	for _, g := range gated {
		if utilfeature.DefaultFeatureGate.Enabled(g.gate) && !served.has(g.resource) {
			refuse("%s of %s cannot be disabled: the feature gate %s needs them", g.resource.Resource,
				g.resource.GroupVersion(), g.gate)
		}
	}
	flows := flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas")
	if !served.has(flows) && o.settings.APIServer.FlowControl.Enabled {
		refuse("%s cannot be disabled: API priority and fairness reads them; set apiServer.flowControl.enabled: false too",
			flows.GroupResource())
	}
	roles := rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	if !served.has(roles) && o.settings.APIServer.Authorization.ConfigFile == "" {
		refuse("%s cannot be disabled: RBAC authorizes by it; name another authorizer in "+
			"apiServer.authorization.configFile", roles.Group)
	}
	return errors.Join(append(errs, o.matchAdmission(served), o.matchAuthorizers(served))...)
}

// defaultPlugins are the admission plugins that are enabled by default: those of
// kube-apiserver for types that are served here. DIFFERENCES.md lists the others.
var defaultPlugins = []string{
	lifecycle.PluginName,
	serviceaccountadmission.PluginName,
	mutatingwebhook.PluginName,
	validatingwebhook.PluginName,
	resourcequota.PluginName,
	certapproval.PluginName,
	certsigning.PluginName,
	ctbattest.PluginName,
	certsubjectrestriction.PluginName,
	validatingadmissionpolicy.PluginName,
	mutatingadmissionpolicy.PluginName,
}

// matchAdmission disables the default plugins whose resources are not served. It returns
// an error if the configuration enables one of them by name.
func (o *Options) matchAdmission(served served) error {
	admission := o.upstream.Admission.GenericAdmission
	var errs []error
	for _, plugin := range slices.Sorted(maps.Keys(kube.AdmissionNeeds)) {
		missing := slices.DeleteFunc(slices.Clone(kube.AdmissionNeeds[plugin]), served.has)
		if len(missing) == 0 {
			continue
		}
		admission.DefaultOffPlugins.Insert(plugin)
		if slices.Contains(o.settings.APIServer.Admission.EnablePlugins, plugin) {
			errs = append(errs, &config.FieldError{Path: "apiServer.admission.enablePlugins",
				Message: unservedNeed(plugin, missing[0])})
		}
	}
	return errors.Join(errs...)
}

// unservedNeed is the error message for a plugin that watches a resource that is not
// served.
func unservedNeed(plugin string, resource schema.GroupVersionResource) string {
	if slices.Contains(defaultPlugins, plugin) {
		return fmt.Sprintf("%s watches %s, which apiServer.runtimeConfig disables; remove one of the two",
			plugin, resource.GroupResource())
	}
	return fmt.Sprintf("%s watches %s, which this server does not serve; remove the plugin",
		plugin, resource.GroupResource())
}

// matchAuthorizers returns an error for the Node authorizer if nodes are not served: it
// watches nodes, pods and volumes, and the server would never be ready.
func (o *Options) matchAuthorizers(served served) error {
	file := o.settings.APIServer.Authorization.ConfigFile
	if file == "" || served.has(corev1.SchemeGroupVersion.WithResource("nodes")) {
		return nil
	}
	authorization, _, err := authorizer.LoadAndValidateFile(file, cel.NewDefaultCompiler(), nil)
	if err != nil {
		return nil // upstream's validation reports it
	}
	for _, a := range authorization.Authorizers {
		if string(a.Type) == modes.ModeNode {
			return &config.FieldError{Path: "apiServer.authorization.configFile",
				Message: fmt.Sprintf("%s: the authorizer %q is of type Node, which watches nodes, and this server does not "+
					"serve nodes; remove it", file, a.Name)}
		}
	}
	return nil
}
