package encryption

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// workloadKeys has keys of the profile kubernetes, and the resources that Kubernetes
// encrypts them as.
var workloadKeys = map[string]schema.GroupResource{
	"/registry/services/specs/team/a":     {Resource: "services"},
	"/registry/services/endpoints/team/a": {Resource: "endpoints"},
	"/registry/minions/a":                 {Resource: "nodes"},
	"/registry/controllers/team/a":        {Resource: "replicationcontrollers"},
	"/registry/ingress/team/a":            {Group: "networking.k8s.io", Resource: "ingresses"},
	"/registry/deployments/team/a":        {Group: "apps", Resource: "deployments"},
	"/registry/ipaddresses/10.0.0.1":      {Group: "networking.k8s.io", Resource: "ipaddresses"},
}

// names lists the resources of the keys as the configuration names them.
func names(keys map[string]schema.GroupResource) []string {
	var list []string
	for _, resource := range keys {
		list = append(list, resource.String())
	}
	slices.Sort(list)
	return list
}

// TestRotateKubernetes: a rotation finds the resources whose keys have other names or no
// group, also those that are in plain text.
func TestRotateKubernetes(t *testing.T) {
	t.Parallel()
	for name, resources := range map[string][]string{
		"named": names(workloadKeys), "wildcards": {"*.*"}, "wildcards of groups": {"*.", "*.apps", "*.networking.k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := apiServer{t, newEtcd(t), filepath.Join(t.TempDir(), "config.yaml")}
			ensure(t, a.file, resources...)
			for key, resource := range workloadKeys {
				a.put(key, "content of "+key, resource)
				a.store(key+"-plain", "plain")
			}
			for _, other := range []string{"/registry/ranges/servicenodeports", "/registry/masterleases/10.0.0.1"} {
				a.store(other, "plain")
				defer func() {
					if answer, err := a.client.Get(t.Context(), other); err != nil || string(answer.Kvs[0].Value) != "plain" {
						t.Errorf("%s, which is no object, is %v, %v", other, answer, err)
					}
				}()
			}
			if _, _, err := a.rotation(silent).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			for key, resource := range workloadKeys {
				for object, want := range map[string]string{key: "content of " + key, key + "-plain": "plain"} {
					text, got := a.get(object, resource)
					if text != want || !bytes.HasPrefix(got, []byte(keysOf(t, a.file)[0])) {
						t.Errorf("%s reads %q; etcd has %.60q", object, text, got)
					}
				}
			}
		})
	}
}

// TestRotateLeavesNoPlainText: entries for resources of the same name in other groups, and
// for services, do not decide about secrets and endpoints.
func TestRotateLeavesNoPlainText(t *testing.T) {
	t.Parallel()
	a := apiServer{t, newEtcd(t), filepath.Join(t.TempDir(), "config.yaml")}
	ensure(t, a.file, "services", "secrets.example.com", "secrets", "endpoints")
	ensure(t, a.file, "secrets", "endpoints") // the others are in plain text from now on
	encrypted := map[string]schema.GroupResource{"/registry/secrets/team/a": secrets, "/registry/services/endpoints/team/a": {Resource: "endpoints"}}
	for key, resource := range encrypted {
		a.put(key, "text", resource)
	}
	if _, _, err := a.rotation(silent).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, resource := range encrypted {
		if text, got := a.get(key, resource); text != "text" || !store.IsEncrypted(got) {
			t.Errorf("%s reads %q; etcd has %.60q", key, text, got)
		}
	}
}

// TestStoredBelow: the prefixes of each resource, by its name and by its group, are those
// where the stores of Kubernetes have it.
func TestStoredBelow(t *testing.T) {
	t.Parallel()
	config := kubeapiserver.NewStorageFactoryConfig()
	config.APIResourceConfig = serverstorage.NewResourceConfig()
	builtIn, err := config.Complete(options.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))).New()
	if err != nil {
		t.Fatal(err)
	}
	prefixes := map[schema.GroupResource]string{}
	for name, group := range builtInGroups() {
		resource := schema.GroupResource{Group: group, Resource: name}
		prefixes[resource] = builtIn.ResourcePrefix(resource)
	}
	for _, resource := range []schema.GroupResource{
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, {Group: "apiregistration.k8s.io", Resource: "apiservices"}, {Group: "example.com", Resource: "widgets"},
	} {
		prefixes[resource] = (&options.SimpleStorageFactory{}).ResourcePrefix(resource)
	}
	for resource, prefix := range prefixes {
		for _, entry := range []string{resource.String(), "*." + resource.Group} {
			if entry == "*." {
				continue // for secrets and config maps
			}
			key := "/registry/" + prefix + "/team/a"
			if below := storedBelow("/registry", entry); !slices.ContainsFunc(below, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
				t.Errorf("%s of %s is in none of %v", key, entry, below)
			}
		}
	}
}
