package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestAdmissionConfiguration: plugins are configured by upstream's file, and
// switched off by name.
func TestAdmissionConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "admission.yaml")
	content := `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - {resource: secrets, matchContains: [count/secrets]}
`
	harness.WriteFile(t, file, content)
	s := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("apiServer: {admission: {configFile: %s}}", file)))
	create := []string{"create", "secret", "generic", "s", "-n", "default"}
	refused(t, s, "", create, "insufficient quota")
	s.Kubectl("", "create", "quota", "q", "-n", "default", "--hard=count/secrets=5")
	harness.Eventually(t, "the quota allows it", func() error {
		_, err := s.TryKubectl("", create...)
		return err
	})

	off := harness.Start(t, "--config", harness.ConfigFile(t, fmt.Sprintf("apiServer: {admission: {configFile: %s, disablePlugins: [ResourceQuota]}}", file)))
	off.Kubectl("", create...)
}
