package kube

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/webhook"
)

// Upstream fact: admission plugins accept several wrappers of their clients of webhooks
//
// Mirrors: k8s.io/apiserver/pkg/admission.Decorators.Decorate
//   k8s.io/apiserver/pkg/admission.Plugins.NewFromPlugins
//   k8s.io/apiserver/pkg/admission/plugin/webhook/generic.Webhook.SetAuthenticationInfoResolverWrapper
//   k8s.io/apiserver/pkg/util/webhook.ClientManager.SetAuthenticationInfoResolverWrapper
// Why: kube-apiserver sets one wrapper, and its options accept no other. The first
//   decorator gets the plugin itself, and a second wrapper is put around the first.
// Gain: the answers of webhooks are limited: one that does not end took 18 GB.
// Breaks: answers have no limit. TestPluginsHaveLimitedAnswers fails.

// WrapWebhookClients puts wrap around the clients of webhooks of all admission plugins.
func WrapWebhookClients(options *genericoptions.AdmissionOptions, wrap webhook.AuthenticationInfoResolverWrapper) {
	wrapper := admission.DecoratorFunc(func(plugin admission.Interface, _ string) admission.Interface {
		if caller, ok := plugin.(initializer.WantsAuthenticationInfoResolverWrapper); ok {
			caller.SetAuthenticationInfoResolverWrapper(wrap)
		}
		return plugin
	})
	options.Decorators = append(admission.Decorators{wrapper}, options.Decorators...)
}
