package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/resourceconfig"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	cliflag "k8s.io/component-base/cli/flag"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"kube-hyper-mini.io/kube-hyper-mini/config"
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
// and disables the admission plugins whose resources are not served.
func (o *Options) matchEnablement() error {
	served, err := o.served()
	if err != nil {
		return err
	}
	var errs []error
	for _, essential := range essentials {
		if !served.has(essential.resource) {
			errs = append(errs, &config.FieldError{Path: "apiServer.runtimeConfig",
				Message: fmt.Sprintf("%s cannot be disabled: %s", essential.resource.GroupResource(), essential.why)})
		}
	}
	roles := rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	if !served.has(roles) && o.settings.APIServer.Authorization.ConfigFile == "" {
		errs = append(errs, &config.FieldError{Path: "apiServer.runtimeConfig",
			Message: roles.Group +
				" cannot be disabled: RBAC authorizes by it; name another authorizer in apiServer.authorization.configFile"})
	}
	return errors.Join(append(errs, o.matchAdmission(served), o.matchAuthorizers(served))...)
}
