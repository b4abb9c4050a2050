package apiserver

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// TestBuiltInResourcesAreComplete fails when a new Kubernetes serves a type that
// apiServer.encryption.resources would refuse.
func TestBuiltInResourcesAreComplete(t *testing.T) {
	served := kube.DefaultResources()
	missing := map[string][]string{}
	for group, names := range builtInResources {
		missing[group] = slices.Clone(names)
	}
	delete(missing, "apiextensions.k8s.io") // of other schemes
	delete(missing, "apiregistration.k8s.io")
	for version := range served.GroupVersionConfigs {
		for kind := range legacyscheme.Scheme.KnownTypes(version) {
			plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind))
			resource := plural.GroupResource()
			switch {
			case !legacyscheme.Scheme.Recognizes(version.WithKind(kind + "List")), resource.Group == "events.k8s.io":
			case resource.Group == "" && (!served.ResourceEnabled(plural) || kind == "APIGroup" || kind == "Endpoints" || kind == "RangeAllocation"):
			case !slices.Contains(builtInResources[resource.Group], resource.Resource):
				t.Errorf("%s is not listed", resource)
			default:
				missing[resource.Group] = slices.DeleteFunc(missing[resource.Group], func(name string) bool { return name == resource.Resource })
			}
		}
	}
	for group, names := range missing {
		for _, name := range names {
			t.Errorf("%s is listed, and not served", schema.GroupResource{Group: group, Resource: name})
		}
	}
}

func TestEncryptedResourcesOfTheProfileKubernetes(t *testing.T) {
	cfg := config.Default()
	cfg.APIs.Profile = config.ProfileKubernetes
	o := &Options{config: cfg, profile: newProfile(cfg)}
	for resource, want := range map[string]string{
		"secrets": "", "*.*": "", "pods": "apiServer.encryption.configFile", "deployments.apps": "apiServer.encryption.configFile", "*.batch": "apiServer.encryption.configFile",
	} {
		o.config.APIServer.Encryption.Resources = []string{resource}
		err := o.checkEncryptedResources()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", resource, err, want)
		}
	}
}

func TestEncryptedResources(t *testing.T) {
	for resource, want := range map[string]string{
		"secrets": "", "leases.coordination.k8s.io": "", "widgets.example.com": "", "*.*": "", "*.": "", "*.example.com": "", "*.rbac.authorization.k8s.io": "",
		"secret":                          `did you mean "secrets"?`,
		"pods":                            `"pods" is not stored by this server`,
		"leases":                          `did you mean "leases.coordination.k8s.io"?`,
		"role.rbac.authorization.k8s.io":  `did you mean "roles.rbac.authorization.k8s.io"?`,
		"roles.rbac.authorisation.k8s.io": `did you mean "rbac.authorization.k8s.io"?`,
		"widgets.example":                 "groups of custom resources have a dot",
		"Widgets.example.com":             "capital letter",
		"*":                               "core API group",
		"events.events.k8s.io":            "Use 'events' instead",
		"configmaps.*":                    "the group of",
		"deployments.apps":                "the group of",
	} {
		o := &Options{config: config.Default()}
		o.config.APIServer.Encryption.Resources = []string{resource}
		err := o.checkEncryptedResources()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", resource, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "apiServer.encryption.resources")):
			t.Errorf("%s: %v, want %q", resource, err, want)
		}
	}
	o := &Options{config: config.Default()}
	o.config.APIServer.Encryption.Resources = []string{"secrets", "*."}
	if err := o.checkEncryptedResources(); err == nil {
		t.Error("a resource that a wildcard has as well was accepted")
	}
}
