package kube

import (
	"net/http"
	"regexp"
	"strings"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
)

// Upstream fact: the health checks of etcd and of KMS plugins, and the mark of a failed check
//
// Mirrors: k8s.io/apiserver/pkg/server/options.EtcdOptions.addEtcdHealthEndpoint
//   k8s.io/apiserver/pkg/server/options.EtcdOptions.maybeApplyResourceTransformers
//   k8s.io/apiserver/pkg/server/healthz.handleRootHealth
// Why: the checks of Kubernetes dial etcd by its address, and the option that leaves them
//   out leaves out those of KMS plugins too. The endpoints return text, from which a start
//   takes the names of the checks that it waits for.
// Gain: /livez and /readyz have the checks of kube-apiserver, by the same names; the log
//   and `status` name what a long start waits for.
// Breaks: a check is missing or has another name, or the log has the whole response of the
//   endpoint. Tests: TestHealthEndpoints, TestKMSUnavailableAtStart, TestFailedChecks.

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

// failedCheck is how the health endpoints mark a check.
var failedCheck = regexp.MustCompile(`\[-\](\S+) failed`)

// FailedChecks returns the names of the failed checks if the error is the response of a
// health endpoint, otherwise the text of the error.
func FailedChecks(err error) string {
	var names []string
	for _, match := range failedCheck.FindAllStringSubmatch(err.Error(), -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		return err.Error()
	}
	return strings.Join(names, ", ")
}
