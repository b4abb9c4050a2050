package kube

import (
	"reflect"
	"testing"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream"
)

// TestServersShareEqualParts: what is equal in all servers is in memory once.
func TestServersShareEqualParts(t *testing.T) {
	options := genericoptions.NewAdmissionOptions()
	ShareConditions(options)
	compilers := map[uintptr]bool{}
	for range 2 {
		plugin, err := validatingwebhook.NewValidatingAdmissionWebhook(nil)
		if err != nil {
			t.Fatal(err)
		}
		options.Decorators.Decorate(plugin, "ValidatingAdmissionWebhook")
		compiler, err := upstream.Field[cel.ConditionCompiler](plugin, "filterCompiler")
		if err != nil {
			t.Fatal(err)
		}
		compilers[reflect.ValueOf(*compiler).Pointer()] = true
	}
	if len(compilers) != 1 {
		t.Errorf("two plugins have %d compilers", len(compilers))
	}
	documented := []*restful.Parameter{restful.QueryParameter("pretty", "of the output"), restful.QueryParameter("pretty", "of the output"),
		restful.QueryParameter("pretty", "another"), restful.QueryParameter("pretty", "of the output").PossibleValues([]string{"true"})}
	shareParameters(documented)
	if documented[0] != documented[1] || documented[1] == documented[2] || documented[1] == documented[3] {
		t.Errorf("%+v", documented)
	}
}

// storesProvider makes stores as upstream's do.
type storesProvider struct {
	controlplane.RESTStorageProvider
	storage rest.Storage
}

func (p storesProvider) NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	return genericapiserver.APIGroupInfo{VersionedResourcesStorageMap: map[string]map[string]rest.Storage{"v1": {"things": p.storage}}}, nil
}

type hookedProvider struct{ storesProvider }

func (hookedProvider) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	return "hook", nil, nil
}

type (
	thingStorage  struct{ *registry.Store }
	statusStorage struct {
		rest.Storage
		store *registry.Store
	}
	guardedStorage struct{ rest.Storage }
)

// TestStoresShareTables: stores of every shape that upstream gives them get the printers of the
// process, others keep theirs, and providers their hooks.
func TestStoresShareTables(t *testing.T) {
	own := func() *registry.Store { return &registry.Store{TableConvertor: printerstorage.TableConvertor{}} }
	plain, status, guarded, other := own(), own(), own(), &registry.Store{TableConvertor: rest.NewDefaultTableConvertor(schema.GroupResource{Resource: "things"})}
	for name, storage := range map[string]rest.Storage{
		"plain": thingStorage{plain}, "status": &statusStorage{store: status}, "guarded": &guardedStorage{&thingStorage{guarded}}, "other": thingStorage{other},
	} {
		shared := ShareTables([]controlplane.RESTStorageProvider{hookedProvider{storesProvider{storage: storage}}, storesProvider{}})
		if _, err := shared[0].NewRESTStorage(nil, nil); err != nil {
			t.Fatal(err)
		}
		_, first := shared[0].(genericapiserver.PostStartHookProvider)
		_, second := shared[1].(genericapiserver.PostStartHookProvider)
		if !first || second {
			t.Errorf("%s: the hooks are %v and %v", name, first, second)
		}
	}
	for _, store := range []*registry.Store{plain, status, guarded} {
		if store.TableConvertor != tables() {
			t.Error("a store has its own printers")
		}
	}
	if other.TableConvertor == tables() {
		t.Error("a store with its own columns has others")
	}
}
