package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// tokenGetter looks up what a service account token is bound to. Upstream's
// default also lists pods and nodes, which are not served here.
type tokenGetter struct {
	serviceAccounts listers.ServiceAccountLister
	secrets         listers.SecretLister
}

func newTokenGetter(factory informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
	core := factory.Core().V1()
	return tokenGetter{serviceAccounts: core.ServiceAccounts().Lister(), secrets: core.Secrets().Lister()}
}

// GetServiceAccount implements [serviceaccount.ServiceAccountTokenGetter].
func (g tokenGetter) GetServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return g.serviceAccounts.ServiceAccounts(namespace).Get(name)
}

// GetSecret implements [serviceaccount.ServiceAccountTokenGetter].
func (g tokenGetter) GetSecret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return g.secrets.Secrets(namespace).Get(name)
}

// GetPod finds none: a token bound to a pod is not valid here.
func (g tokenGetter) GetPod(_ context.Context, _, name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

// GetNode finds none: a token bound to a node is not valid here.
func (g tokenGetter) GetNode(_ context.Context, name string) (*corev1.Node, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
}
