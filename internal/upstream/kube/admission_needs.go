package kube

import (
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
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault"
)

// Upstream fact: which resources admission plugins watch
//
// Mirrors: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.Lifecycle.SetExternalKubeInformerFactory
//   k8s.io/apiserver/pkg/admission/plugin/resourcequota.QuotaAdmission.SetExternalKubeInformerFactory
//   k8s.io/kubernetes/pkg/kubeapiserver/options.AllOrderedPlugins
//   k8s.io/kubernetes/pkg/kubeapiserver/options.DefaultOffAdmissionPlugins
// Why: a plugin waits for its informers, and the informer of a resource that is
//   not served never syncs. No exported function returns these resources.
// Gain: a server with disabled APIs becomes ready, and a plugin that cannot work
//   is refused with the reason.
// Breaks: the server does not become ready with a new plugin, or one is missing.
//   TestDifferencesFromKubeAPIServer fails for plugins that are on by default.

// AdmissionNeeds are the resources that admission plugins watch. A plugin whose
// informer never syncs keeps the server unready.
var AdmissionNeeds = map[string][]schema.GroupVersionResource{
	lifecycle.PluginName:     {corev1.SchemeGroupVersion.WithResource("namespaces")},
	resourcequota.PluginName: {corev1.SchemeGroupVersion.WithResource("resourcequotas")},
	mutatingwebhook.PluginName: {admissionregistrationv1.SchemeGroupVersion.WithResource(
		"mutatingwebhookconfigurations")},
	validatingwebhook.PluginName: {admissionregistrationv1.SchemeGroupVersion.WithResource(
		"validatingwebhookconfigurations")},
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
	noderestriction.PluginName: {corev1.SchemeGroupVersion.WithResource("nodes"),
		corev1.SchemeGroupVersion.WithResource("pods")},
	podgroup.PluginName:     {schedulingv1alpha2.SchemeGroupVersion.WithResource("workloads")},
	podresize.PluginName:    {corev1.SchemeGroupVersion.WithResource("nodes")},
	podsecurity.PluginName:  {corev1.SchemeGroupVersion.WithResource("pods")},
	priority.PluginName:     {schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")},
	resize.PluginName:       {storagev1.SchemeGroupVersion.WithResource("storageclasses")},
	runtimeclass.PluginName: {nodev1.SchemeGroupVersion.WithResource("runtimeclasses")},
	setdefault.PluginName:   {storagev1.SchemeGroupVersion.WithResource("storageclasses")},
}
