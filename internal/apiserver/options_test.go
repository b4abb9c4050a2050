package apiserver

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
)

// TestFlagsAreChecked stops at the flags: feature gates are process globals,
// so that what comes after them is tested with the real binary.
func TestFlagsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		flags map[string]config.Scalar
		want  []string
	}{
		"an unknown flag":     {map[string]config.Scalar{"goaway-chanse": "0.1"}, []string{"apiServer.flags.goaway-chanse: no such flag", `did you mean "goaway-chance"?`}},
		"dashes":              {map[string]config.Scalar{"--goaway-chance": "0.1"}, []string{"write the flag's name without dashes"}},
		"a bad value":         {map[string]config.Scalar{"goaway-chance": "often"}, []string{"apiServer.flags.goaway-chance: ", "often"}},
		"a flag with a field": {map[string]config.Scalar{"audit-policy-file": "x"}, []string{"use apiServer.audit.policyFile"}},
		"a flag of ours":      {map[string]config.Scalar{"etcd-servers": "x"}, []string{"use etcd.external.endpoints"}},
		"two at once":         {map[string]config.Scalar{"a": "1", "b": "2"}, []string{"apiServer.flags.a: ", "apiServer.flags.b: "}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.APIServer.Flags = test.flags
			_, err := NewOptions(cfg)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in:\n%v", want, err)
				}
			}
		})
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
