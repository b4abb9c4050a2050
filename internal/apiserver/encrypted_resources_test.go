package apiserver

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// TestBuiltInResourcesAreComplete fails when a new Kubernetes serves a type that
// apiServer.encryption.resources would refuse.
func TestBuiltInResourcesAreComplete(t *testing.T) {
	served := kube.DefaultResources()
	missing := map[string][]string{}
	for group, names := range kube.StoredTypes {
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
			case !slices.Contains(kube.StoredTypes[resource.Group], resource.Resource):
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

// TestEncryptedResources: the list may have all types of both profiles, as control planes of one
// server have different ones, and no others.
func TestEncryptedResources(t *testing.T) {
	for _, profile := range []string{config.ProfileGeneric, config.ProfileKubernetes} {
		o := &Options{profile: newProfile(profile)}
		for _, resource := range []string{"secrets", "*.*", "*.certificates.k8s.io", "pods", "services", "deployments.apps", "*.batch",
			"ipaddresses.networking.k8s.io"} {
			o.settings.APIServer.Encryption.Resources = []string{resource}
			if err := o.checkEncryptedResources(); err != nil {
				t.Errorf("%s, %s: %v", profile, resource, err)
			}
		}
		o.settings.APIServer.Encryption.Resources = []string{"deployment.apps"}
		if err := o.checkEncryptedResources(); err == nil {
			t.Errorf("%s: a resource that does not exist is accepted", profile)
		}
	}
}
