package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizerunion "k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Extensions are what a program adds to the API servers, see Options of this program's package
// controlplane. The zero value adds nothing.
type Extensions struct {
	Groups      []Group
	Admission   []admission.Interface
	Handler     func(http.Handler) http.Handler // wraps the whole handler chain
	Paths       map[string]http.Handler
	Tokens      []authenticator.Token
	Requests    []authenticator.Request
	Authorizers []authorizer.Authorizer
	Audit       func(audit.Backend) audit.Backend // nil for the configured one
	OwnMetrics  bool                              // without those of the process
	// Access is given how the server authenticates and authorizes requests; nil for none.
	Access func(authenticator.Request, authorizer.Authorizer)
}

// Group is an API group of Go types.
type Group interface {
	Name() string
	// Versions are those that are served, the preferred one first.
	Versions() []schema.GroupVersion
	Scheme() *runtime.Scheme
	// Definitions returns the OpenAPI schemas of the types, without those of base.
	Definitions(base map[string]common.OpenAPIDefinition, ref common.ReferenceCallback) map[string]common.OpenAPIDefinition
	// Install makes the storage of the resources. With an error it returns what it has made.
	Install(GroupEnvironment) (*genericapiserver.APIGroupInfo, error)
}

// GroupEnvironment is what the storage of a group may use.
type GroupEnvironment struct {
	// Client calls the server in its process.
	Client *rest.Config
	// Options returns the options of stores that encode objects with the codec.
	Options func(runtime.Codec) generic.RESTOptionsGetter
}

// Call turns a panic of the program's function into an error.
func Call(f func() error) (err error) {
	defer PanicAsError(&err)
	return f()
}

// PanicAsError is deferred where functions of the program are called.
func PanicAsError(err *error) {
	if reason := recover(); reason != nil {
		slog.Error("a function of the program panicked", "panic", reason, "stack", string(debug.Stack()))
		*err = fmt.Errorf("a function of the program panicked: %v", reason)
	}
}

// reservedGroups refuses CRDs in the groups of the extensions.
type reservedGroups []Group

// Handles implements [admission.Interface].
func (reservedGroups) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update
}

// Validate implements [admission.ValidationInterface].
func (g reservedGroups) Validate(_ context.Context, attributes admission.Attributes,
	_ admission.ObjectInterfaces) error {
	crd, ok := attributes.GetObject().(*apiextensions.CustomResourceDefinition)
	if ok && slices.ContainsFunc(g, func(group Group) bool { return group.Name() == crd.Spec.Group }) {
		return admission.NewForbidden(attributes, fmt.Errorf("the group %s has types of this server's program: choose "+
			"another group", crd.Spec.Group))
	}
	return nil
}

// CheckGroups returns an error if the store has CRDs, below the prefix, in one of the groups.
func CheckGroups(ctx context.Context, client clientv3.KV, prefix string, groups []Group) error {
	if len(groups) == 0 {
		return nil
	}
	below := store.NamespaceKeys(prefix, apiextensions.GroupName+"/customresourcedefinitions", "")
	found, err := client.Get(ctx, below, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("look for CRDs in the groups of the program: %w", err)
	}
	for _, kv := range found.Kvs {
		name := strings.TrimPrefix(string(kv.Key), below)
		_, of, _ := strings.Cut(name, ".") // a plural has no dot
		for _, group := range groups {
			if of == group.Name() {
				return fmt.Errorf("the CRD %s is in the group %s, which has types of the program: delete the CRD, or choose "+
					"another group", name, group.Name())
			}
		}
	}
	return nil
}

// definitions is the source of the OpenAPI schemas, those of the groups included.
func (b *builder) definitions() common.GetOpenAPIDefinitions {
	base := b.profile.definitions()
	if len(b.config.Extensions.Groups) == 0 {
		return base
	}
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		builtIn := base(ref)
		all := maps.Clone(builtIn)
		for _, group := range b.config.Extensions.Groups {
			maps.Copy(all, group.Definitions(builtIn, ref))
		}
		return all
	}
}

// schemes are those of the groups.
func (b *builder) schemes() []*runtime.Scheme {
	var list []*runtime.Scheme
	for _, group := range b.config.Extensions.Groups {
		list = append(list, group.Scheme())
	}
	return list
}

// AsAdmin returns a client like that of the server itself, but of the administrator: the server's
// own requests are not audited as a user's, and do not have OpenAPI built. It sends JSON, which
// all types have.
func AsAdmin(client *rest.Config) *rest.Config {
	client = rest.CopyConfig(client)
	client.ContentConfig = rest.ContentConfig{}
	client.Impersonate = rest.ImpersonationConfig{UserName: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	return client
}

// installGroups serves the groups beside the native ones.
func (b *builder) installGroups(server *controlplane.Server) error {
	environment := GroupEnvironment{Client: AsAdmin(b.generic.LoopbackClientConfig),
		Options: func(codec runtime.Codec) generic.RESTOptionsGetter {
			return b.config.Storage.RESTOptionsGetter(groupStores{b, codec}, b.cached)
		}}
	for _, group := range b.config.Extensions.Groups {
		info, err := group.Install(environment)
		for _, storages := range info.VersionedResourcesStorageMap {
			for name, made := range storages {
				server.GenericAPIServer.RegisterDestroyFunc(func() {
					if err := Call(func() error { made.Destroy(); return nil }); err != nil {
						b.log.Error("a storage of the program failed to end", "resource", name, "error", err)
					}
				})
			}
		}
		if err == nil {
			err = server.GenericAPIServer.InstallAPIGroup(info)
		}
		info.VersionedResourcesStorageMap = nil // upstream would destroy them as well
		if err != nil {
			return fmt.Errorf("make the API group %s: %w", group.Name(), err)
		}
	}
	return nil
}

// groupStores has the options of stores that encode objects with the codec.
type groupStores struct {
	*builder
	codec runtime.Codec
}

// GetRESTOptions implements [generic.RESTOptionsGetter].
func (g groupStores) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	etcd := g.options.Etcd
	config := etcd.StorageConfig.ForResource(resource)
	config.Codec = g.codec
	if transformers := g.generic.ResourceTransformers; transformers != nil {
		config.Transformer = transformers.TransformerForResource(resource)
	}
	return generic.RESTOptions{
		StorageConfig: config, Decorator: generic.UndecoratedStorage,
		ResourcePrefix:          resource.Group + "/" + resource.Resource,
		EnableGarbageCollection: etcd.EnableGarbageCollection, DeleteCollectionWorkers: etcd.DeleteCollectionWorkers,
		CountMetricPollPeriod:     etcd.StorageConfig.CountMetricPollPeriod,
		StorageObjectCountTracker: g.generic.StorageObjectCountTracker,
	}, nil
}

// groupPriorities are those of the groups' APIServices, after the built-in ones.
func (b *builder) groupPriorities() map[schema.GroupVersion]controlplane.APIServicePriority {
	priorities := controlplane.DefaultGenericAPIServicePriorities()
	for _, group := range b.config.Extensions.Groups {
		for i, version := range group.Versions() {
			priorities[version] = controlplane.APIServicePriority{Group: 1000, Version: int32(100 - i)}
		}
	}
	return priorities
}

// extendAuthentication adds the authenticators of the extensions, whose users get the group
// system:authenticated as those of the others do.
func (b *builder) extendAuthentication(c *genericapiserver.Config) {
	added := b.config.Extensions
	var list []authenticator.Request
	for _, token := range added.Tokens {
		list = append(list, bearertoken.New(token))
	}
	if list = append(list, added.Requests...); len(list) > 0 {
		c.Authentication.Authenticator = union.New(c.Authentication.Authenticator,
			group.NewAuthenticatedGroupAdder(
				authenticator.WrapAudienceAgnosticRequest(c.Authentication.APIAudiences, union.New(list...))))
	}
}

// extendAuthorization adds the authorizers of the extensions.
func (b *builder) extendAuthorization(c *genericapiserver.Config) {
	if added := b.config.Extensions.Authorizers; len(added) > 0 {
		all := append([]authorizer.Authorizer{authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}, added...)
		c.Authorization.Authorizer = authorizerunion.New(append(all, c.Authorization.Authorizer)...)
	}
}

// audienceChecked authenticates requests as upstream's handler chain does (WithAuthentication in
// k8s.io/apiserver/pkg/endpoints/filters): with the audiences of the API.
func audienceChecked(c genericapiserver.AuthenticationInfo) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if len(c.APIAudiences) == 0 {
			return c.Authenticator.AuthenticateRequest(r)
		}
		r = r.WithContext(authenticator.WithAudiences(r.Context(), c.APIAudiences))
		response, ok, err := c.Authenticator.AuthenticateRequest(r)
		if ok && len(response.Audiences) > 0 && len(c.APIAudiences.Intersect(response.Audiences)) == 0 {
			return nil, false, err
		}
		return response, ok, err
	})
}
