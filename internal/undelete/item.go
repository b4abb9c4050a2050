package undelete

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"kube-hyper-mini.io/kube-hyper-mini/internal/history"
)

// Action is what happens, or has happened, to an object.
type Action string

// The actions. In a plan, only Create and Exists lead to a complete result.
const (
	// Create: it will be created.
	Create Action = "create"
	// Exists: the object was not deleted, or was brought back before, or the server
	// makes it by itself.
	Exists Action = "exists"
	// Taken: another object has its name.
	Taken Action = "name taken"
	// Refused: the server refuses it because of rights, validation or admission.
	Refused Action = "refused"
	// Gone: the server does not have its type in that version.
	Gone Action = "type gone"
	// NoOwner: its owners do not exist and do not come back, so that the garbage
	// collector would delete it.
	NoOwner Action = "owner gone"
	// Unreadable: its value cannot be decrypted or decoded.
	Unreadable Action = "unreadable"
	// Complete: an interrupted run has created it; its status and field managers will be
	// restored.
	Complete Action = "complete"
	// Created: it was created.
	Created Action = "created"
	// Unknown: the server did not answer the request to create it.
	Unknown Action = "unknown"
	// Incomplete: it was created, without a part that the reason names.
	Incomplete Action = "incomplete"
)

// Item is an object of a plan.
type Item struct {
	Action Action `json:"action"`
	// Reason is for the user; empty if there is nothing to say.
	Reason     string `json:"reason,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// UID in the journal, and NewUID of the object that exists or was created.
	UID    types.UID `json:"uid,omitempty"`
	NewUID types.UID `json:"newUID,omitempty"`

	key    string
	owners []metav1.OwnerReference
	// rank orders the creation: owners have a lower one.
	rank int
	// mapping is nil for a type that the server does not have (yet).
	mapping *meta.RESTMapping
}

func (i *Item) groupKind() schema.GroupKind { return i.gvk().GroupKind() }

func (i *Item) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(i.APIVersion, i.Kind)
}

// String is the object as messages name it: Kind NAMESPACE/NAME.
func (i *Item) String() string {
	if i.Namespace == "" {
		return i.Kind + " " + i.Name
	}
	return i.Kind + " " + i.Namespace + "/" + i.Name
}

func (i *Item) becomes(action Action, reason string) { i.Action, i.Reason = action, reason }

// comesBack reports whether the object exists or will be created.
func (i *Item) comesBack() bool {
	return slices.Contains([]Action{Create, Complete, Exists, Created, Incomplete}, i.Action)
}

var (
	namespaceKind      = schema.GroupKind{Kind: "Namespace"}
	definitionKind     = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	serviceKind        = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}
	serviceAccountKind = schema.GroupKind{Kind: "ServiceAccount"}
	configMapKind      = schema.GroupKind{Kind: "ConfigMap"}
	secretKind         = schema.GroupKind{Kind: "Secret"}
	quotaKind          = schema.GroupKind{Kind: "ResourceQuota"}
)

// isEvent reports whether the objects are events, which are not brought back.
func isEvent(kind schema.GroupKind) bool {
	return kind.Kind == "Event" && (kind.Group == "" || kind.Group == "events.k8s.io")
}

// Client has the clients of an API server that the package uses.
type Client struct {
	// Mapper resolves types as kubectl does, with short names.
	Mapper        meta.ResettableRESTMapper
	dynamic       dynamic.Interface
	discovery     discovery.CachedDiscoveryInterface
	authorization authorizationclient.SelfSubjectAccessReviewsGetter
}

// NewClient returns a client of the API server. It does not reach it.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the server limits
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	cached := memory.NewMemCacheClient(discover)
	deferred := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	return &Client{
		Mapper:  restmapper.NewShortcutExpander(deferred, cached, nil).(meta.ResettableRESTMapper),
		dynamic: objects, discovery: cached, authorization: authorization,
	}, nil
}

// at returns the client of a type, in the namespace if the type is namespaced.
func (c *Client) at(mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	resource := c.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return resource
	}
	return resource.Namespace(namespace)
}

// revision returns the server's present revision, which a consistent list has: of namespaces, or
// for users who may not list them, of the object's type.
func (c *Client) revision(ctx context.Context, object history.Object) (int64, error) {
	one := metav1.ListOptions{Limit: 1}
	list, err := c.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, one)
	if err != nil {
		mapping, mappingErr := c.Mapper.RESTMapping(object.GroupKind())
		if mappingErr != nil {
			return 0, fmt.Errorf("read the server's revision from its namespaces: %w", err)
		}
		list, err = c.at(mapping, object.Namespace).List(ctx, one)
	}
	if err != nil {
		return 0, fmt.Errorf("read the server's revision from its %s: %w", object.GroupResource, err)
	}
	return strconv.ParseInt(list.GetResourceVersion(), 10, 64)
}

// hasStatus reports whether a type has the subresource status.
func (c *Client) hasStatus(mapping *meta.RESTMapping) (bool, error) {
	list, err := c.discovery.ServerResourcesForGroupVersion(mapping.Resource.GroupVersion().String())
	if err != nil {
		return false, fmt.Errorf("ask the server for the types of %s: %w", mapping.Resource.GroupVersion(), err)
	}
	return slices.ContainsFunc(list.APIResources,
		func(r metav1.APIResource) bool { return r.Name == mapping.Resource.Resource+"/status" }), nil
}
