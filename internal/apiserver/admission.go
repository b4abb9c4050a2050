package apiserver

import (
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
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
	"k8s.io/kubernetes/plugin/pkg/admission/job"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/nodedeclaredfeatures"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/podgroup"
	"k8s.io/kubernetes/plugin/pkg/admission/podresize"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/security/podsecurity"
	serviceaccountadmission "k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
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

// Upstream fact: which resources admission plugins watch
//
// Mirrors: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.Lifecycle.SetExternalKubeInformerFactory
//   k8s.io/apiserver/pkg/admission/plugin/resourcequota.QuotaAdmission.SetExternalKubeInformerFactory
//   k8s.io/kubernetes/pkg/kubeapiserver/options.AllOrderedPlugins
//   k8s.io/kubernetes/pkg/kubeapiserver/options.DefaultOffAdmissionPlugins
// Why: a plugin waits for its informers, and the informer of a resource that is
//   not served never syncs. No function returns these resources.
// Gain: a server with disabled APIs becomes ready, and a plugin that cannot work
//   is refused with the reason.
// Breaks: the server does not become ready with a new plugin, or one is missing.
//   TestDifferencesFromKubeAPIServer fails for plugins that are on by default.

// admissionNeeds are the resources that admission plugins watch. A plugin whose
// informer never syncs keeps the server unready.
var admissionNeeds = map[string][]schema.GroupVersionResource{
	lifecycle.PluginName:         {corev1.SchemeGroupVersion.WithResource("namespaces")},
	resourcequota.PluginName:     {corev1.SchemeGroupVersion.WithResource("resourcequotas")},
	mutatingwebhook.PluginName:   {admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")},
	validatingwebhook.PluginName: {admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")},
	mutatingadmissionpolicy.PluginName: {
		admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicies"),
		admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicybindings"),
	},
	validatingadmissionpolicy.PluginName: {
		admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
		admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"),
	},
	defaultingressclass.PluginName:  {networkingv1.SchemeGroupVersion.WithResource("ingressclasses")},
	job.PluginName:                  {schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups")},
	limitranger.PluginName:          {corev1.SchemeGroupVersion.WithResource("limitranges")},
	nodedeclaredfeatures.PluginName: {corev1.SchemeGroupVersion.WithResource("nodes")},
	noderestriction.PluginName:      {corev1.SchemeGroupVersion.WithResource("nodes"), corev1.SchemeGroupVersion.WithResource("pods")},
	podgroup.PluginName:             {schedulingv1alpha2.SchemeGroupVersion.WithResource("workloads")},
	podresize.PluginName:            {corev1.SchemeGroupVersion.WithResource("nodes")},
	podsecurity.PluginName:          {corev1.SchemeGroupVersion.WithResource("pods")},
	priority.PluginName:             {schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")},
	resize.PluginName:               {storagev1.SchemeGroupVersion.WithResource("storageclasses")},
	runtimeclass.PluginName:         {nodev1.SchemeGroupVersion.WithResource("runtimeclasses")},
	setdefault.PluginName:           {storagev1.SchemeGroupVersion.WithResource("storageclasses")},
}

// matchAdmission disables the default plugins whose resources are not served. It returns
// an error if the configuration enables one of them by name.
func (o *Options) matchAdmission(served served) error {
	admission := o.upstream.Admission.GenericAdmission
	var errs []error
	for _, plugin := range sortedKeys(admissionNeeds) {
		missing := slices.DeleteFunc(slices.Clone(admissionNeeds[plugin]), served.has)
		if len(missing) == 0 {
			continue
		}
		admission.DefaultOffPlugins.Insert(plugin)
		if slices.Contains(o.config.APIServer.Admission.EnablePlugins, plugin) {
			errs = append(errs, &config.FieldError{Path: "apiServer.admission.enablePlugins", Message: unservedNeed(plugin, missing[0])})
		}
	}
	return errors.Join(errs...)
}

// unservedNeed is the error message for a plugin that watches a resource that is not
// served.
func unservedNeed(plugin string, resource schema.GroupVersionResource) string {
	if slices.Contains(defaultPlugins, plugin) {
		return fmt.Sprintf("%s watches %s, which apiServer.runtimeConfig disables; remove one of the two", plugin, resource.GroupResource())
	}
	return fmt.Sprintf("%s watches %s, which this server does not serve; remove the plugin", plugin, resource.GroupResource())
}

// matchAuthorizers returns an error for the Node authorizer if nodes are not served: it
// watches nodes, pods and volumes, and the server would never be ready.
func (o *Options) matchAuthorizers(served served) error {
	file := o.config.APIServer.Authorization.ConfigFile
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
				Message: fmt.Sprintf("%s: the authorizer %q is of type Node, which watches nodes, and this server does not serve nodes; remove it", file, a.Name)}
		}
	}
	return nil
}
