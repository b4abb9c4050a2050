package controllers

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// discoveryTimeout is shorter than client-go's 32 s, because a stop may wait for it, and longer than
// a request waits on a busy server: the controllers end when their first query fails.
const discoveryTimeout = 10 * time.Second

// asManager returns the client configuration of the user
// system:kube-controller-manager. The informers and the tokens controller use it, as
// in kube-controller-manager.
func (c *Config) asManager() *rest.Config {
	client := rest.CopyConfig(c.Client)
	if !c.Manager && !c.FullRights {
		client.Impersonate = rest.ImpersonationConfig{UserName: user.KubeControllerManager}
	}
	return client
}

// managerConfig is asManager with the name in the user agent.
func (e *environment) managerConfig(name string) *rest.Config {
	return rest.AddUserAgent(e.config.asManager(), name)
}

// accountConfig returns the client configuration of the service account of a
// controller, as kube-controller-manager with --use-service-account-credentials: the
// bootstrap policy has a role for each, and flow control a priority level for all.
func (e *environment) accountConfig(name string) *rest.Config {
	client := rest.AddUserAgent(rest.CopyConfig(e.config.Client), name)
	if !e.config.FullRights {
		client.Impersonate = rest.ImpersonationConfig{UserName: serviceaccount.MakeUsername(metav1.NamespaceSystem, name)}
	}
	return client
}

// metadata returns a metadata client of the service account.
func (e *environment) metadata(name string) (metadata.Interface, error) {
	client, err := metadata.NewForConfig(e.accountConfig(name))
	if err != nil {
		return nil, fmt.Errorf("make the metadata client: %w", err)
	}
	return client, nil
}

// newDiscoveryClient returns a client whose requests end after discoveryTimeout: it takes no
// context, and a stop waits for its requests.
func newDiscoveryClient(client *rest.Config) (*discovery.DiscoveryClient, error) {
	client = rest.CopyConfig(client)
	client.Timeout = discoveryTimeout
	discoverer, err := discovery.NewDiscoveryClientForConfig(client)
	if err != nil {
		return nil, fmt.Errorf("make the discovery client: %w", err)
	}
	return discoverer, nil
}
