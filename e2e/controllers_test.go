package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	audit "k8s.io/apiserver/pkg/apis/audit/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestControllersUseTheirServiceAccounts: controllers have upstream's service
// accounts and roles, these suffice, and flow control treats them as upstream.
func TestControllersUseTheirServiceAccounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	harness.WriteFile(t, policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules: [{level: Metadata}]\n")
	s := harness.Start(t, "--config", harness.ConfigFile(t, "apiServer: {audit: {policyFile: "+policy+", logPath: "+log+"}}\n"))
	ns := namespace(t, s)
	s.Kubectl("", "create", "quota", "some", "-n", ns, "--hard=configmaps=9")
	s.Await("jsonpath={.status.used.configmaps}", "quota/some", "-n", ns)
	s.Kubectl("", "create", "serviceaccount", "robot", "-n", ns)
	keptToken(t, s, ns)
	s.Kubectl("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: sum}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {part: sum}}]}\n", "create", "-f", "-")
	s.Kubectl("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: part, labels: {part: sum}}\nrules: [{apiGroups: [example.com], resources: [widgets], verbs: [get]}]\n", "create", "-f", "-")
	s.Await("jsonpath={.rules[0].verbs[0]}", "clusterrole/sum")
	s.Kubectl("", "create", "configmap", "owner", "-n", ns)
	uid := s.Kubectl("", "get", "configmap", "owner", "-n", ns, "-o", "jsonpath={.metadata.uid}")
	s.Kubectl("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owned, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: "+uid+"}]}\n", "create", "-n", ns, "-f", "-")
	s.Kubectl("", "delete", "configmap", "owner", "-n", ns)
	s.Await("delete", "configmap/owned", "-n", ns)
	s.Kubectl("", "delete", "namespace", ns)

	events := auditEvents(t, log)
	users := map[string]bool{}
	for _, event := range events {
		if event.User.Username != "system:apiserver" || !isController(event.UserAgent) {
			continue
		}
		if event.ImpersonatedUser == nil {
			t.Errorf("%s %s was made with full rights by %s", event.Verb, event.RequestURI, event.UserAgent)
			continue
		}
		users[event.ImpersonatedUser.Username] = true
		if event.ResponseStatus != nil && event.ResponseStatus.Code == 403 && !strings.Contains(event.ResponseStatus.Message, "being terminated") {
			t.Errorf("%s may not %s %s: %s", event.ImpersonatedUser.Username, event.Verb, event.RequestURI, event.ResponseStatus.Message)
		}
	}
	for _, name := range []string{"service-account-controller", "root-ca-cert-publisher", "namespace-controller", "generic-garbage-collector", "resourcequota-controller", "clusterrole-aggregation-controller"} {
		if !users["system:serviceaccount:kube-system:"+name] {
			t.Errorf("%s has made no request; there are %v", name, users)
		}
	}
	if !users["system:kube-controller-manager"] {
		t.Errorf("the tokens controller has made no request; there are %v", users)
	}
	harness.Contains(t, s.Kubectl("", "get", "--raw", "/metrics"), `apiserver_flowcontrol_dispatched_requests_total{flow_schema="kube-system-service-accounts"`)
}

// isController reports whether a user agent is a controller's.
func isController(agent string) bool {
	suffixes := []string{"-controller", "-collector", "-publisher", "-cleaner", "-informers", "-discovery"}
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(agent, suffix) })
}

// auditEvents reads a log until it has the deletion of a namespace's finalizer.
func auditEvents(t *testing.T, log string) []audit.Event {
	t.Helper()
	var events []audit.Event
	harness.Eventually(t, "the audit log has everything", func() error {
		content, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		if !bytes.Contains(content, []byte("/finalize")) {
			return errors.New("there is no end of a namespace")
		}
		events = nil
		for line := range bytes.Lines(content) {
			var event audit.Event
			if err := json.Unmarshal(line, &event); err != nil {
				return err
			}
			events = append(events, event)
		}
		return nil
	})
	return events
}
