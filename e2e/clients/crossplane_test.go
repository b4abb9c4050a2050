package clients

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestCrossplane composes resources as the help topic clients describes, with a provider
// and a function that run as processes, and packages of a registry on loopback.
func TestCrossplane(t *testing.T) {
	if os.Getenv(variable) == "" {
		t.Skip("make e2e-clients runs it")
	}
	module := filepath.Join(harness.Root(t), "e2e", "crossplane")
	processes := filepath.Join(module, "processes")
	programs := map[string]string{
		"crossplane":    harness.Build(t, module, "github.com/crossplane/crossplane/v2/cmd/crossplane", "crossplane"),
		"function-team": harness.Build(t, processes, "./function", "function-team"),
		// The provider has no flag for the port of its metrics, which is 8080.
		"provider-nop": harness.Build(t, processes, "github.com/crossplane-contrib/provider-nop/cmd/provider", "provider-nop",
			"-ldflags", "-X sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress=127.0.0.1:0"),
	}
	registry := harness.FreeAddress(t)
	serve(t, harness.Build(t, module, "./registry", "registry"), "--listen", registry,
		"provider-nop:v0.5.0="+providerPackage(t, sources(t, processes, "github.com/crossplane-contrib/provider-nop")),
		"function-team:v1.0.0="+filepath.Join(module, "packages", "function-team"),
		"platform:v1.0.0="+filepath.Join(module, "packages", "platform"))
	s := harness.Start(t)
	session := harness.NewSession(t, s)
	for name, path := range programs {
		session.Program(name, path)
	}
	session.Replace = strings.NewReplacer(
		"./crossplane-crds", filepath.Join(sources(t, module, "github.com/crossplane/crossplane/v2"), "cluster", "crds"),
		"registry.example.org", registry,
		"127.0.0.1:9444", harness.FreeAddress(t),
		"8090", fmt.Sprint(harness.FreePort(t)),
		"8091", fmt.Sprint(harness.FreePort(t)),
	)
	scripts := harness.Scripts(t, harness.Topic("clients"), "## Crossplane")
	if len(scripts) != 3 {
		t.Fatalf("the section has %d scripts", len(scripts))
	}
	for _, script := range scripts {
		session.Enter(script)
	}
	list, err := s.Client().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{LabelSelector: "crossplane.io/composite=blue"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Data["size"] != "3" {
		t.Errorf("the composed config maps: %v, %v", list, err)
	}
}

// serve runs the registry until the test ends, and returns when it serves the packages.
func serve(t *testing.T, program string, args ...string) {
	t.Helper()
	registry := harness.StartProcess(t, exec.Command(program, args...))
	harness.Eventually(t, "the registry serves", func() error {
		if !strings.Contains(registry.Log(), "serving\n") {
			return errors.New("not yet")
		}
		return nil
	})
}

// providerPackage makes a directory with the metadata and the CRDs of the provider. Its
// webhooks need a certificate that Crossplane makes for Deployments only.
func providerPackage(t *testing.T, module string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "package")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(module, "package"))); err != nil {
		t.Fatal(err)
	}
	webhooks := filepath.Join(dir, "webhookconfigurations", "manifests.yaml")
	if err := os.Remove(webhooks); err != nil {
		t.Fatal(err)
	}
	return dir
}
