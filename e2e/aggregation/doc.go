// Package aggregation tests servers behind `service:` references, each a
// process of its own with a certificate for <name>.<namespace>.svc: aggregated
// API servers, admission webhooks and conversion webhooks.
//
// The conformance specs of upstream (test/e2e/apimachinery: webhook.go,
// crd_conversion_webhook.go, aggregator.go) deploy their server in a pod. Each
// test here that has a spec's substance says "Spec:" and the spec's name. That
// is 24 of the 25; TestAdmissionWebhooks has the reason why one is left out.
package aggregation
