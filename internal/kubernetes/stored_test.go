package kubernetes

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/workloads"
)

// TestStoredTypesAreComplete compares the list with the kinds of the scheme that
// have lists and whose versions the generic profile does not have.
func TestStoredTypesAreComplete(t *testing.T) {
	generic := kube.DefaultResources()
	known := map[schema.GroupResource]bool{}
	for version := range Resources().GroupVersionConfigs {
		if version.Group != "" && hasGroup(generic, version.Group) {
			continue
		}
		for kind := range legacyscheme.Scheme.KnownTypes(version) {
			if !legacyscheme.Scheme.Recognizes(version.WithKind(kind + "List")) {
				continue
			}
			plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind))
			known[plural.GroupResource()] = true
		}
	}
	// Not stored: a list that is computed, one of another API version's, and what the
	// server makes for services.
	for _, resource := range []schema.GroupResource{{Resource: "componentstatuses"}, {Resource: "rangeallocations"}, workloads.IPAddresses} {
		delete(known, resource)
	}
	// Stored by the generic profile too, or no types but options.
	for resource := range known {
		if resource.Group == "" && generic.ResourceEnabled(schema.GroupVersion{Version: "v1"}.WithResource(resource.Resource)) {
			delete(known, resource)
		}
	}
	for group, resources := range workloads.StoredTypes {
		for _, name := range resources {
			resource := schema.GroupResource{Group: group, Resource: name}
			if name == "endpoints" { // the guess of its plural is another
				resource.Resource = "endpoints"
			}
			if !known[resource] {
				t.Errorf("%s is listed, and the scheme has no such type", resource)
			}
			delete(known, resource)
		}
	}
	for resource := range known {
		t.Errorf("%s is not listed", resource)
	}
}

func hasGroup(config *serverstorage.ResourceConfig, group string) bool {
	for version := range config.GroupVersionConfigs {
		if version.Group == group {
			return true
		}
	}
	return false
}

// keys is a store that has keys only.
type keys struct {
	clientv3.KV
	list []string
}

// Get implements [clientv3.KV], for prefixes and single keys.
func (k keys) Get(_ context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	op, response := clientv3.OpGet(key, options...), &clientv3.GetResponse{}
	for _, stored := range k.list {
		if stored != key && (len(op.RangeBytes()) == 0 || !strings.HasPrefix(stored, key)) {
			continue
		}
		response.Count++
		if !op.IsCountOnly() && (op.Limit() == 0 || response.Count <= op.Limit()) {
			response.Kvs = append(response.Kvs, &mvccpb.KeyValue{Key: []byte(stored)})
		}
	}
	return response, nil
}

func TestStoredNamesObjects(t *testing.T) {
	used := []string{"/registry/servicecidrs/kubernetes", "/registry/priorityclasses/system-node-critical", "/registry/services/specs/default/kubernetes",
		"/registry/ipaddresses/10.0.0.1", "/registry/secrets/default/s"}
	for name, c := range map[string]struct {
		keys, want []string
	}{
		"never used":  {[]string{"/registry/pods/default/left"}, nil},
		"own objects": {used, nil},
		"objects": {append(slices.Clone(used), "/registry/pods/a/1", "/registry/pods/a/2", "/registry/pods/a/3", "/registry/pods/a/4",
			"/registry/services/specs/a/web", "/registry/minions/n", "/registry/deployments/a/web"),
			[]string{"1 deployments.apps (a/web)", "1 nodes (n)", "1 services (a/web)", "4 pods (a/1, a/2, a/3, ...)"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Stored(t.Context(), keys{list: c.keys}, "registry")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestCheckPrefix: objects below another prefix are reported, unless there are some below
// the server's own. Other keys do not count.
func TestCheckPrefix(t *testing.T) {
	other := []string{"/a/b/configmaps/default/c", "/a/b/namespaces/default", "/kube-hyper-mini/release/a/b"}
	for name, c := range map[string]struct {
		keys []string
		want string
	}{
		"a new store":   {nil, ""},
		"foreign keys":  {[]string{"/kube-hyper-mini/release/registry", "compact_rev_key"}, ""},
		"another":       {other, "prefix: /a/b}"},
		"both prefixes": {append(slices.Clone(other), "/registry/namespaces/default"), ""},
	} {
		err := CheckPrefix(t.Context(), keys{list: c.keys}, "/registry")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
