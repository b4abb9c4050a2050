package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// tokenGetter gets the objects that a service account token is bound to. It is
// upstream's getter without pods and nodes, which are not served here and whose
// informers would never sync.
type tokenGetter struct {
	serviceaccount.ServiceAccountTokenGetter
}

// tokenGetterFor returns a constructor for
// [options.ServiceAccountAuthenticationOptions.OptionalTokenGetter]. The getter reads
// the informers' caches, and reads objects that they lack from the API server through
// client: a cache may be behind, and the token of a new service account is valid at
// once.
func tokenGetterFor(
	client kubernetes.Interface) func(informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
	return func(factory informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
		core := factory.Core().V1()
		return tokenGetter{serviceaccountcontroller.NewGetterFromClient(client, core.Secrets().Lister(),
			core.ServiceAccounts().Lister(), nil, nil)}
	}
}

// GetPod returns NotFound: a token bound to a pod is not valid here.
func (g tokenGetter) GetPod(_ context.Context, _, name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}
