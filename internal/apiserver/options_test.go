package apiserver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// TestWhatTheStartWouldRefuse is refused before anything is written, too. Feature gates are process
// globals, so that what comes after them is tested with the real binary.
func TestWhatTheStartWouldRefuse(t *testing.T) {
	own := filepath.Join(t.TempDir(), "authentication.yaml")
	const content = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{issuer: {url: " + issuer +
		", audiences: [a]}, claimMappings: {username: {claim: sub, prefix: ''}}}]\n"
	if err := os.WriteFile(own, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := func(pairs ...string) config.APIServer {
		set := map[string]config.Scalar{}
		for i := 0; i < len(pairs); i += 2 {
			set[pairs[i]] = config.Scalar(pairs[i+1])
		}
		return config.APIServer{Flags: set}
	}
	for name, test := range map[string]struct {
		api  config.APIServer
		want []string
	}{
		"an unknown flag":                {flags("goaway-chanse", "0.1"), []string{"apiServer.flags.goaway-chanse: no such flag", `did you mean "goaway-chance"?`}},
		"dashes":                         {flags("--goaway-chance", "0.1"), []string{"write the flag's name without dashes"}},
		"a bad value":                    {flags("goaway-chance", "often"), []string{"apiServer.flags.goaway-chance: ", "often"}},
		"a flag with a field":            {flags("audit-policy-file", "x"), []string{"use apiServer.audit.policyFile"}},
		"a flag of ours":                 {flags("etcd-servers", "x"), []string{"use etcd.external.endpoints"}},
		"two at once":                    {flags("a", "1", "b", "2"), []string{"apiServer.flags.a: ", "apiServer.flags.b: "}},
		"an expiration that is too long": {config.APIServer{Authentication: config.Authentication{MaxTokenExpiration: config.Duration{Duration: 150 * 365 * 24 * time.Hour}}}, []string{"apiServer.authentication.maxTokenExpiration: must be between"}},
		"the own issuer":                 {config.APIServer{Authentication: config.Authentication{ConfigFile: own}}, []string{"apiServer.authentication.configFile: ", "must not overlap with disallowed issuers"}},
		"an issuer without TLS":          {flags("oidc-issuer-url", "http://issuer", "oidc-client-id", "a"), []string{"apiServer.flags.oidc-issuer-url: ", "must be https"}},
		"no file of its authority":       {flags("oidc-issuer-url", "https://issuer", "oidc-client-id", "a", "oidc-ca-file", "/nope"), []string{"open /nope: "}},
		"a list for one value":           {flags("goaway-chance", "0.001\n0.002"), []string{"apiServer.flags.goaway-chance: takes one value, not a list"}},
		"no file of a token webhook":     {flags("authentication-token-webhook-config-file", "/nope"), []string{"authentication-token-webhook-config-file: open /nope: "}},
		"no file of an egress selector":  {flags("egress-selector-config-file", "/nope"), []string{"egress-selector-config-file: open /nope: "}},
		"no file of tokens":              {flags("token-auth-file", "/nope.csv"), []string{"apiServer.flags.token-auth-file: open /nope.csv: "}},
	} {
		_, err := NewOptions(Settings{Serving: config.Default().Serving, APIServer: test.api})
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// TestFlagsWithSeveralValues are set once for each.
func TestFlagsWithSeveralValues(t *testing.T) {
	o, err := NewOptions(Settings{Serving: config.Default().Serving, APIServer: config.APIServer{Flags: map[string]config.Scalar{"service-account-issuer": "https://new,1\nhttps://old"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.upstream.Authentication.ServiceAccounts.Issuers; !slices.Equal(got, []string{"https://new,1", "https://old"}) {
		t.Errorf("the issuers are %q", got)
	}
}

// TestResourcesWithoutWatchCache: those of the server, unless a flag gives them one.
func TestResourcesWithoutWatchCache(t *testing.T) {
	for _, test := range []struct {
		flag string
		want map[string]bool // whether a resource has a watch cache
	}{
		{"", map[string]bool{"configmaps": true, "events": false, "customresourcedefinitions.apiextensions.k8s.io": false, "apiservices.apiregistration.k8s.io": false}},
		{"apiservices.apiregistration.k8s.io#100", map[string]bool{"apiservices.apiregistration.k8s.io": true, "customresourcedefinitions.apiextensions.k8s.io": false}},
		{"configmaps#0", map[string]bool{"configmaps": false, "secrets": true}},
	} {
		var configured []string
		if test.flag != "" {
			configured = []string{test.flag}
		}
		sizes, err := withDefaultCacheSizes(configured)
		if err != nil {
			t.Fatal(err)
		}
		cached, err := cachePolicy(&genericoptions.EtcdOptions{EnableWatchCache: true, WatchCacheSizes: sizes})
		if err != nil {
			t.Fatal(err)
		}
		for resource, want := range test.want {
			if got := cached(schema.ParseGroupResource(resource)); got != want {
				t.Errorf("with %q, %s has a watch cache: %t", test.flag, resource, got)
			}
		}
	}
}

func TestSchemasOfServedTypesAreComplete(t *testing.T) {
	definitions := kube.OpenAPIDefinitions(false)(func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) })
	for _, name := range []string{"io.k8s.api.core.v1.ConfigMap", "io.k8s.api.rbac.v1.ClusterRoleList", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
		"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition", "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService"} {
		if _, ok := definitions[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"io.k8s.api.core.v1.Pod", "io.k8s.api.apps.v1.Deployment"} {
		if _, ok := definitions[name]; ok {
			t.Errorf("%s is not served and described all the same", name)
		}
	}
	for name, definition := range definitions {
		for _, dependency := range definition.Dependencies {
			if _, ok := definitions[dependency]; !ok {
				t.Errorf("%s refers to %s, which is missing", name, dependency)
			}
		}
	}
}

func TestSchemasDifferByReferenceStyle(t *testing.T) {
	source := kube.OpenAPIDefinitions(false)
	style := func(prefix string) common.ReferenceCallback {
		return func(name string) spec.Ref { return spec.MustCreateRef(prefix + name) }
	}
	const list = "io.k8s.api.core.v1.ConfigMapList"
	for _, prefix := range []string{"#/definitions/", "#/components/schemas/", "#/definitions/"} {
		items := source(style(prefix))[list].Schema.Properties["items"]
		item := items.Items.Schema
		if len(item.AllOf) == 1 { // version 3 has a reference beside a default in there
			item = &item.AllOf[0]
		}
		if got := item.Ref.String(); !strings.HasPrefix(got, prefix) {
			t.Errorf("asked for %s, got %s", prefix, got)
		}
	}
}
