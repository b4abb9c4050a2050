package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingadmissionpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingadmissionpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/cel"
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
