package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// badConfigurations have their mistake in the given line; two lines with
// apiVersion and kind come before the content. Package config has more of them.
var badConfigurations = map[string]struct {
	content string
	line    int
	want    []string
}{
	"unknown field":        {"serving:\n  prot: 1", 4, []string{"serving.prot: unknown field", `did you mean "port"?`, "allowed here:", "bindAddress"}},
	"grace out of range":   {"serving:\n  stopGrace: 2m", 4, []string{"serving.stopGrace: 2m0s is out of range"}},
	"flag":                 {"apiServer:\n  flags:\n    max-request-inflight: 1", 5, []string{"apiServer.flags.max-request-inflight: no such flag", `did you mean "max-requests-inflight"?`}},
	"flag with dashes":     {"apiServer:\n  flags:\n    --goaway-chance: 0.1", 5, []string{"without dashes"}},
	"flag of the server's": {"apiServer:\n  flags:\n    secure-port: 1", 5, []string{"apiServer.flags.secure-port: is set by the server; use serving.port"}},
	"flag's value":         {"apiServer:\n  flags:\n    max-requests-inflight: many", 5, []string{"apiServer.flags.max-requests-inflight", "many"}},
	"controller":           {"controllerManager:\n  controllers: ['*', '-garbage-collector']", 4, []string{"controllerManager.controllers: no such controller: garbage-collector", "garbage-collector-controller"}},
	"admission plugin":     {"apiServer:\n  admission:\n    enablePlugins: [NamespaceLifecicle]", 4, []string{"apiServer.admission: enable-admission-plugins", "NamespaceLifecicle"}},
	"feature gate":         {"apiServer:\n  featureGates:\n    NoSuchFeature: true", 4, []string{"apiServer.featureGates", "NoSuchFeature"}},
	"group":                {"apiServer:\n  runtimeConfig:\n    nothing.example.com/v1: true", 4, []string{"apiServer.runtimeConfig", "nothing.example.com"}},
	"missing file":         {"apiServer:\n  audit:\n    policyFile: /nowhere/policy.yaml", 5, []string{"apiServer.audit.policyFile", "/nowhere/policy.yaml", "no such file"}},
	"client authority":     {"apiServer:\n  authentication:\n    clientCAFile: /dev/null", 5, []string{"apiServer.authentication.clientCAFile", "/dev/null"}},
	"token key":            {"apiServer:\n  authentication:\n    serviceAccountKeyFiles: [/dev/null]", 5, []string{"apiServer.authentication.serviceAccountKeyFiles[0]", "/dev/null holds no RSA or ECDSA key"}},
	"encrypted resource":   {"apiServer:\n  encryption:\n    resources: ['secrets, configmaps']", 5, []string{"apiServer.encryption.resources[0]", "is not a resource"}},
	"no such resource":     {"apiServer:\n  encryption:\n    resources: [secret]", 5, []string{"apiServer.encryption.resources[0]", `did you mean "secrets"?`}},
	"profile":              {"apis:\n  profile: full", 4, []string{`apis.profile: "full" is not a profile`, "generic, kubernetes"}},
	"version of TLS":       {"apiServer:\n  flags:\n    tls-min-version: VersionTLS99", 4, []string{"apiServer.flags: ", "VersionTLS99"}},
	"cipher suite":         {"apiServer:\n  flags:\n    tls-cipher-suites: FOO", 4, []string{"apiServer.flags: ", "FOO"}},
	"token expiration":     {"apiServer:\n  authentication:\n    maxTokenExpiration: 10m", 5, []string{"apiServer.authentication.maxTokenExpiration: must be between 1h and 2^32 seconds"}},
	"long expiration":      {"apiServer:\n  authentication:\n    maxTokenExpiration: 150y", 5, []string{"apiServer.authentication.maxTokenExpiration: must be between"}},
	"issuer without TLS":   {"apiServer:\n  flags:\n    oidc-client-id: a\n    oidc-issuer-url: http://issuer", 6, []string{"apiServer.flags.oidc-issuer-url: ", "must be https"}},
	"issuer's authority":   {"apiServer:\n  flags:\n    oidc-client-id: a\n    oidc-issuer-url: https://issuer\n    oidc-ca-file: /nope", 6, []string{"apiServer.flags.oidc-issuer-url: ", "/nope: no such file"}},
	"file of tokens":       {"apiServer:\n  flags:\n    token-auth-file: /nope.csv", 5, []string{"apiServer.flags.token-auth-file: ", "/nope.csv: no such file"}},
	"flag of a profile":    {"apiServer:\n  flags:\n    service-cluster-ip-range: 10.0.0.0/16", 5, []string{"apiServer.flags.service-cluster-ip-range: no such flag"}},
	"cluster IPs":          {"apis: {profile: kubernetes}\napiServer:\n  flags:\n    service-cluster-ip-range: 10.0.0.0/30", 5, []string{"apiServer.flags: --service-cluster-ip-range", "at least 8"}},
	"flag without effect":  {"apiServer:\n  flags:\n    etcd-servers-overrides: /events#http://localhost:2379", 5, []string{"apiServer.flags.etcd-servers-overrides", "is not supported"}},
}

// TestBadConfiguration: file, line and field of the mistake, exit code 2, and
// nothing written.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range badConfigurations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, dir := harness.ConfigFile(t, c.content), filepath.Join(t.TempDir(), "data")
			out := harness.Runs(t, harness.ExitUsage, "server", "--data-dir", dir, "--port", "0", "--config", file)
			harness.Contains(t, out, append(c.want, fmt.Sprintf("error: %s:%d: ", file, c.line))...)
			if strings.Count(out, "\n") != 1 {
				t.Errorf("it says more than one line:\n%s", out)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the data directory was made: %v", err)
			}
		})
	}
}

// TestConfigurationOfAnotherKind deserves that answer and no list of unknown
// fields.
func TestConfigurationOfAnotherKind(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pod.yaml")
	harness.WriteFile(t, file, "apiVersion: v1\nkind: ServerConfiguration\n")
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, "config", "validate", file), file+":1: apiVersion:", `"v1" is not supported; use "kube-hyper-mini.io/v1alpha1"`)
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, "server", "--config", "/nowhere/config.yaml", "--data-dir", t.TempDir()), "/nowhere/config.yaml", "no such file")
}

// TestFlagsOverrideTheFile: and the file the defaults.
func TestFlagsOverrideTheFile(t *testing.T) {
	t.Parallel()
	file := harness.ConfigFile(t, "serving: {port: 1}\nkubeconfig: {mode: '0640'}\ndataDir: /nowhere")
	s := harness.Start(t, "--config", file)
	s.Kubectl("", "get", "namespaces")
	if info, err := os.Stat(s.Kubeconfig); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the kubeconfig: %v %v", info, err)
	}
}

// TestBadFiles: the files that the configuration names are read before anything
// is started or written, too.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	for field, kind := range map[string]string{
		"admission.configFile":      "apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration",
		"audit.policyFile":          "audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]",
		"authentication.configFile": "apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration",
		"authorization.configFile":  "apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration",
		"encryption.configFile":     "apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration",
		"tracing.configFile":        "apiserver.config.k8s.io/v1\nkind: TracingConfiguration",
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			named, dir := filepath.Join(t.TempDir(), "named.yaml"), filepath.Join(t.TempDir(), "data")
			section, name, _ := strings.Cut(field, ".")
			file := harness.ConfigFile(t, fmt.Sprintf("apiServer: {%s: {%s: %s}}", section, name, named))
			for content, want := range map[string]string{
				"apiVersion: " + kind + "\nnonsense: 1\n": "nonsense",
				"apiVersion: v1\nkind: Secret\n":          "Secret",
				"no YAML: [":                              "",
			} {
				harness.WriteFile(t, named, content)
				out := harness.Runs(t, harness.ExitUsage, "server", "--data-dir", dir, "--port", "0", "--config", file)
				harness.Contains(t, out, fmt.Sprintf("error: %s:3: apiServer.%s: ", file, field), want)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the data directory was made: %v", err)
			}
		})
	}
}
