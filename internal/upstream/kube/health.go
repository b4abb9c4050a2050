package kube

import (
	"net/http"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
)

// Upstream fact: the health checks of etcd and of KMS plugins
//
// Mirrors: k8s.io/apiserver/pkg/server/options.EtcdOptions.addEtcdHealthEndpoint
//   k8s.io/apiserver/pkg/server/options.EtcdOptions.maybeApplyResourceTransformers
// Why: the checks of Kubernetes dial etcd by its address, and the option that
//   leaves them out leaves out those of KMS plugins too.
// Gain: /livez and /readyz have the checks of kube-apiserver, by the same names.
// Breaks: a check is missing or has another name. Tests: TestHealthEndpoints,
//   TestKMSUnavailableAtStart.

// AddStoreChecks adds the checks of the store to /healthz, /livez and /readyz.
// Call it after the storage options have been applied.
func AddStoreChecks(c *genericapiserver.Config, check func(*http.Request) error) {
	c.AddHealthChecks(healthz.NamedGroupedCheck("etcd", "etcd", check))
	c.AddReadyzChecks(healthz.NamedGroupedCheck("etcd-readiness", "etcd-readiness", check))
	if kms, ok := c.ResourceTransformers.(healthz.HealthChecker); ok {
		c.HealthzChecks = append(c.HealthzChecks, kms)
		c.ReadyzChecks = append(c.ReadyzChecks, kms)
	}
}
