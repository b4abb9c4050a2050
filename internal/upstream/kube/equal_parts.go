package kube

import (
	"reflect"
	"sync"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream"
)

// Upstream fact: each server makes what is equal in all servers of a process
//
// Mirrors: k8s.io/kubernetes/pkg/printers/storage.TableConvertor
//   k8s.io/kubernetes/pkg/printers/internalversion.AddHandlers
//   k8s.io/kubernetes/pkg/controlplane/apiserver.Server.InstallAPIs
//   k8s.io/apiserver/pkg/admission/plugin/webhook/generic.NewWebhook
//   k8s.io/apiserver/pkg/admission/plugin/cel.NewConditionCompiler
// Why: each store has the printers of all types, and each plugin for webhooks the CEL
//   environments of match conditions. Both only read what they have, and have no exported
//   field for another.
// Gain: 1.6 MB of live heap of each server, of 12 MB of a further one in a process (bench,
//   library; trial).
// Breaks: that memory comes back. TestServersShareEqualParts fails.

var (
	tables = sync.OnceValue(func() printerstorage.TableConvertor {
		return printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers)}
	})
	conditions = sync.OnceValue(func() cel.ConditionCompiler {
		return cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	})
)

// ShareConditions gives the plugins for webhooks the CEL environments of the process.
func ShareConditions(options *genericoptions.AdmissionOptions) {
	share := admission.DecoratorFunc(func(plugin admission.Interface, _ string) admission.Interface {
		compiler, err := upstream.Field[cel.ConditionCompiler](plugin, "filterCompiler")
		if err == nil { // another plugin has no such field
			*compiler = conditions()
		}
		return plugin
	})
	options.Decorators = append(admission.Decorators{share}, options.Decorators...)
}

// ShareTables returns the providers, whose stores use the printers of the process.
func ShareTables(providers []controlplane.RESTStorageProvider) []controlplane.RESTStorageProvider {
	shared := make([]controlplane.RESTStorageProvider, len(providers))
	for i, provider := range providers {
		shared[i] = tableSharer{provider}
		if hook, ok := provider.(genericapiserver.PostStartHookProvider); ok {
			shared[i] = struct {
				tableSharer
				genericapiserver.PostStartHookProvider
			}{tableSharer{provider}, hook}
		}
	}
	return shared
}

type tableSharer struct {
	controlplane.RESTStorageProvider
}

// NewRESTStorage implements [controlplane.RESTStorageProvider].
func (s tableSharer) NewRESTStorage(resources serverstorage.APIResourceConfigSource,
	options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	info, err := s.RESTStorageProvider.NewRESTStorage(resources, options)
	for _, version := range info.VersionedResourcesStorageMap {
		for _, storage := range version {
			shareTables(reflect.ValueOf(storage), 2)
		}
	}
	return info, err
}

// shareTables looks for stores in the storage of a resource: some are wrapped.
func shareTables(value reflect.Value, depth int) {
	switch value.Kind() {
	case reflect.Interface, reflect.Pointer:
		if value.Type() != reflect.TypeFor[*registry.Store]() {
			shareTables(value.Elem(), depth)
		} else if store := (*registry.Store)(value.UnsafePointer()); store != nil {
			if _, own := store.TableConvertor.(printerstorage.TableConvertor); own {
				store.TableConvertor = tables()
			}
		}
	case reflect.Struct:
		for i := 0; depth > 0 && i < value.NumField(); i++ {
			shareTables(value.Field(i), depth-1)
		}
	}
}
