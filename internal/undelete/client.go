package undelete

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

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

// hasStatus reports whether a type has the subresource status.
func (c *Client) hasStatus(mapping *meta.RESTMapping) (bool, error) {
	list, err := c.discovery.ServerResourcesForGroupVersion(mapping.Resource.GroupVersion().String())
	if err != nil {
		return false, fmt.Errorf("ask the server for the types of %s: %w", mapping.Resource.GroupVersion(), err)
	}
	for _, resource := range list.APIResources {
		if resource.Name == mapping.Resource.Resource+"/status" {
			return true, nil
		}
	}
	return false, nil
}
