package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// launchPart runs a command of its own and waits until it is ready.
func launchPart(t *testing.T, command, dir string, args ...string) *harness.Server {
	t.Helper()
	s := harness.LaunchWith(t, harness.Options{Command: command, Dir: dir, Args: args})
	s.WaitLog(harness.ReadyLine)
	return s
}

// TestParts: etcd, API server and controllers in a process each, with nothing
// but a bundle between them.
func TestParts(t *testing.T) {
	t.Parallel()
	listen := harness.FreeAddress(t)
	etcd := launchPart(t, "etcd", filepath.Join(t.TempDir(), "etcd"), "--config", harness.ConfigFile(t, fmt.Sprintf("etcd: {embedded: {listen: %q}}\n", listen)))

	dir := identityOf(t, etcd.Dir)
	file := func(name string) string { return filepath.Join(dir, "pki", name) }
	onIt := func(more string) string {
		return harness.ConfigFile(t, fmt.Sprintf("etcd: {external: {endpoints: [%q], caFile: %q, certFile: %q, keyFile: %q}}\n%s",
			"https://"+listen, file("etcd-ca.crt"), file("etcd-client.crt"), file("etcd-client.key"), more))
	}
	policy, audit := filepath.Join(t.TempDir(), "policy.yaml"), filepath.Join(t.TempDir(), "audit.log")
	harness.WriteFile(t, policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n")
	api := launchPart(t, "apiserver", dir, "--config", onIt(fmt.Sprintf("apiServer: {audit: {policyFile: %q, logPath: %q}}\n", policy, audit)))
	createNamespace(t, api, "alone")
	if api.Kubectl("", "get", "serviceaccounts", "-n", "alone", "-o", "name") != "" {
		t.Error("the API server alone has controllers")
	}

	controllers := launchPart(t, "controllers", identityOf(t, etcd.Dir), "--config", harness.ConfigFile(t, fmt.Sprintf("controllerManager: {server: %q}\n", api.RESTConfig().Host)))
	populated(t, api, "alone")
	// Kinds that come later are seen from afar too.
	api.Kubectl(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, kind: Widget}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`, "apply", "-f", "-")
	api.Await("condition=Established", "crd/widgets.example.com")
	api.Kubectl("{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: alone}}", "create", "-f", "-")
	api.Kubectl("", "delete", "namespace", "alone")
	if _, err := api.Client().CoreV1().Namespaces().Get(t.Context(), "alone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace: %v", err)
	}
	connectsAsManager(t, audit)
	for _, part := range []*harness.Server{controllers, api, etcd} {
		if code := part.Stop(); code != 0 {
			t.Errorf("it ended with exit code %d:\n%s", code, part.Log())
		}
		if lines := harness.Problems(part.Log()); lines != "" {
			t.Errorf("it complains:\n%s", lines)
		}
	}
}

// connectsAsManager: the controllers connect as kube-controller-manager's user, and
// not as the administrator whose identity they have too.
func connectsAsManager(t *testing.T, audit string) {
	t.Helper()
	log := harness.ReadFile(t, audit)
	manager := 0
	for line := range strings.Lines(string(log)) {
		switch {
		case strings.Contains(line, `"user":{"username":"system:kube-controller-manager"`):
			manager++
		case strings.Contains(line, `"user":{"username":"admin"`) && strings.Contains(line, `-controller","`):
			t.Errorf("a controller connects as the administrator: %s", line)
		}
	}
	if manager == 0 {
		t.Error("nothing connects as system:kube-controller-manager")
	}
}

// TestEtcdRequiresAClientCertificate: a certificate that opens the API does not open
// the store.
func TestEtcdRequiresAClientCertificate(t *testing.T) {
	t.Parallel()
	listen := harness.FreeAddress(t)
	etcd := launchPart(t, "etcd", filepath.Join(t.TempDir(), "etcd"), "--config", harness.ConfigFile(t, fmt.Sprintf("etcd: {embedded: {listen: %q}}\n", listen)))
	dir := identityOf(t, etcd.Dir)
	file := func(name string) string { return filepath.Join(dir, "pki", name) }
	s := harness.LaunchWith(t, harness.Options{Command: "apiserver", Dir: dir, Args: []string{"--config", harness.ConfigFile(t, fmt.Sprintf(
		"etcd: {external: {endpoints: [%q], caFile: %q, certFile: %q, keyFile: %q}}\n", "https://"+listen, file("etcd-ca.crt"), file("admin.crt"), file("admin.key")))}})
	etcd.WaitLog("rejected connection")
	if code := s.Wait(); code != harness.ExitFailure {
		t.Errorf("it ended with exit code %d", code)
	}
	harness.Contains(t, s.Log(), "unknown certificate authority", "caFile, certFile and keyFile of etcd.external")
	if strings.Contains(s.Log(), harness.ReadyLine) {
		t.Errorf("it got in:\n%s", s.Log())
	}
}

func TestPartsReportMissingSettings(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{"apiserver": "etcd.external.endpoints", "controllers": "controllerManager.server"} {
		dir := filepath.Join(t.TempDir(), "data")
		out, code := harness.CLI(t, command, "--data-dir", dir)
		if code != 2 || !strings.Contains(out, want) {
			t.Errorf("%s ended with exit code %d:\n%s", command, code, out)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s made %s", command, dir)
		}
	}
}
