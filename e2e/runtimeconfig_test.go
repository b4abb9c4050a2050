package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestDisabledAPIs: APIs that are switched off are not listed, their controllers
// do not run, the log has no warnings, and the rest works.
func TestDisabledAPIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config      string
		groups      []string
		controllers []string
	}{
		"authorization, events, policies, quotas": {
			"authorization.k8s.io/v1: false, events.k8s.io/v1: false, v1/events: false, admissionregistration.k8s.io/v1: false, v1/resourcequotas: false",
			[]string{"authorization.k8s.io", "events.k8s.io", "admissionregistration.k8s.io"},
			[]string{"validatingadmissionpolicy-status-controller", "resourcequota-controller"}},
		"flow control, leases, certificates, migration": {
			"coordination.k8s.io/v1: false, certificates.k8s.io/v1: false, storagemigration.k8s.io/v1beta1: false, flowcontrol.apiserver.k8s.io/v1: false}, flowControl: {enabled: false",
			[]string{"flowcontrol.apiserver.k8s.io", "coordination.k8s.io", "certificates.k8s.io", "storagemigration.k8s.io"},
			[]string{"certificatesigningrequest-signing-controller", "certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller",
				"storage-version-migrator-controller"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("apiServer: {runtimeConfig: {%s}}", c.config)))
			listed := "\n" + s.Kubectl("", "api-versions")
			for _, group := range c.groups {
				if strings.Contains(listed, "\n"+group+"/") {
					t.Errorf("%s is listed:%s", group, listed)
				}
			}
			if resources := s.Kubectl("", "api-resources", "--api-group=", "-o", "name"); strings.Contains(resources, "resourcequotas") == slices.Contains(c.controllers, "resourcequota-controller") {
				t.Errorf("the core resources are:\n%s", resources)
			}
			var status struct{ Controllers []string }
			if err := json.Unmarshal([]byte(s.Status("-o", "json")), &status); err != nil {
				t.Fatal(err)
			}
			for _, controller := range c.controllers {
				if slices.Contains(status.Controllers, controller) {
					t.Errorf("the %s runs", controller)
				}
			}
			if !slices.Contains(status.Controllers, "garbage-collector-controller") {
				t.Errorf("the rest does not run: %v", status.Controllers)
			}
			// Controllers query discovery again after a new kind.
			k := newKind()
			define(t, s, k, k.definition("Namespaced"))
			s.Kubectl("", "create", "namespace", "used")
			s.Kubectl(k.object("w", ""), "create", "-n", "used", "-f", "-")
			s.Kubectl("", "delete", "namespace", "used")
			if code := s.Stop(); code != 0 {
				t.Errorf("the server ended with exit code %d", code)
			}
			if lines := harness.Problems(s.Log()); lines != "" {
				t.Errorf("the log has warnings or errors:\n%s", lines)
			}
		})
	}
}

// TestEnabledAPIs: APIs that are off by default can be enabled, and those that a feature needs
// are on with it.
func TestEnabledAPIs(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, `apiServer:
  runtimeConfig: {certificates.k8s.io/v1beta1: true}
  featureGates: {ClusterTrustBundle: true, CoordinatedLeaderElection: true, StorageVersionAPI: true}
controllerManager: {controllers: ["*", bootstrap-signer-controller, -garbage-collector-controller]}
`))
	harness.Contains(t, s.Kubectl("", "api-versions"), "certificates.k8s.io/v1beta1", "coordination.k8s.io/v1beta1",
		"internal.apiserver.k8s.io/v1alpha1")
	var status struct{ Controllers []string }
	if err := json.Unmarshal([]byte(s.Status("-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(status.Controllers, "bootstrap-signer-controller") || slices.Contains(status.Controllers, "garbage-collector-controller") {
		t.Errorf("controllers: %v", status.Controllers)
	}
}

// TestAPIsThatCannotBeDisabled: APIs that the server or another setting of the
// configuration needs.
func TestAPIsThatCannotBeDisabled(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"{runtimeConfig: {v1: false}}":                                                                           "secrets cannot be disabled",
		"{runtimeConfig: {v1/namespaces: false}}":                                                                "namespaces cannot be disabled",
		"{runtimeConfig: {apiextensions.k8s.io/v1: false}}":                                                      "customresourcedefinitions.apiextensions.k8s.io cannot be disabled",
		"{runtimeConfig: {apiregistration.k8s.io/v1: false}}":                                                    "apiservices.apiregistration.k8s.io cannot be disabled",
		"{runtimeConfig: {rbac.authorization.k8s.io/v1: false}}":                                                 "apiServer.authorization.configFile",
		"{runtimeConfig: {flowcontrol.apiserver.k8s.io/v1: false}}":                                              "apiServer.flowControl.enabled",
		"{runtimeConfig: {nobodys.example.com/v1: false}}":                                                       "apiServer.runtimeConfig: unknown api groups nobodys.example.com/v1",
		"{runtimeConfig: {v1/resourcequotas: false}, admission: {enablePlugins: [ResourceQuota]}}":               "ResourceQuota watches resourcequotas",
		"{runtimeConfig: {coordination.k8s.io/v1beta1: false}, featureGates: {CoordinatedLeaderElection: true}}": "leasecandidates of coordination.k8s.io/v1beta1 cannot be disabled",
		"{admission: {enablePlugins: [PodSecurity]}}":                                                            "PodSecurity watches pods, which this server does not serve",
	} {
		harness.Contains(t, harness.Runs(t, harness.ExitUsage, "config", "validate", harness.ConfigFile(t, "apiServer: "+config)), "error: ", want)
	}
}

// TestNodeAuthorizerIsRefused: the server would never become ready with it.
func TestNodeAuthorizerIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "authorization.yaml")
	content := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: Node, name: node}, {type: RBAC, name: rbac}]\n"
	harness.WriteFile(t, file, content)
	config := harness.ConfigFile(t, "apiServer: {authorization: {configFile: "+file+"}}\n")
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, "config", "validate", config), "apiServer.authorization.configFile", `"node" is of type Node`, "remove it")
}

// TestClusterTrustBundleAttest: a bundle for a signer needs the right to attest
// for it.
func TestClusterTrustBundleAttest(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, "apiServer: {featureGates: {ClusterTrustBundle: true}, runtimeConfig: {certificates.k8s.io/v1beta1: true}}\n"))
	s.Kubectl("", "create", "clusterrole", "bundles", "--verb=create,get", "--resource=clustertrustbundles.certificates.k8s.io")
	s.Kubectl("", "create", "clusterrolebinding", "bundles", "--clusterrole=bundles", "--user=jane")
	s.Kubectl(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: attest}
rules: [{apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [example.com/*], verbs: [attest]}]
`, "create", "-f", "-")
	authority := harness.ReadFile(t, filepath.Join(s.Dir, "pki", "server-ca.crt"))
	bundle := fmt.Sprintf("apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nmetadata: {name: 'example.com:signer:one'}\nspec: {signerName: example.com/signer, trustBundle: %q}\n", authority)
	create := []string{"create", "-f", "-", "--as=jane"}
	harness.Eventually(t, "jane may create bundles", func() error {
		_, err := s.TryKubectl("", "auth", "can-i", "create", "clustertrustbundles.certificates.k8s.io", "--as=jane")
		return err
	})
	out, err := s.TryKubectl(bundle, create...)
	if err == nil {
		t.Error("a user who may not attest for the signer has created its trust bundle")
	}
	harness.Contains(t, out, `not permitted to attest for signerName "example.com/signer"`)
	s.Kubectl("", "create", "clusterrolebinding", "attest", "--clusterrole=attest", "--user=jane")
	harness.Eventually(t, "jane may attest", func() error {
		_, err := s.TryKubectl(bundle, create...)
		return err
	})
}
