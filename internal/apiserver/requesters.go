package apiserver

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// Names of requesters that are no users.
const (
	controllerRequesters = "" // the servers and their controllers
	masterRequesters     = user.SystemPrivilegedGroup
)

// requesters tells who shares a bound. It is safe for concurrent use.
type requesters struct {
	accounts sets.Set[string] // user names of the controllers' service accounts
}

func newRequesters() requesters { return requesters{controllerAccounts()} }

// name returns the name under which a request counts: the user, controllerRequesters or
// masterRequesters. The service accounts of a namespace have one name: who may create one
// may create any number. The controllers do not share with users, nor with other accounts
// of kube-system, which may be those of operators.
func (r requesters) name(ctx context.Context) string {
	requester, known := request.UserFrom(ctx)
	if !known {
		requester = &user.DefaultInfo{Name: user.Anonymous}
	}
	name, master := requester.GetName(), slices.Contains(requester.GetGroups(), user.SystemPrivilegedGroup)
	switch {
	case name == user.APIServerUser && master, name == user.KubeControllerManager, r.accounts.Has(name):
		return controllerRequesters
	case master:
		return masterRequesters
	}
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		return serviceaccount.MakeUsername(namespace, "") // no user has this name
	}
	return name
}

// controllerAccounts returns the user names of the service accounts that the bootstrap
// policy binds to roles in kube-system or in all namespaces: those of the controllers.
func controllerAccounts() sets.Set[string] {
	accounts := sets.New[string]()
	add := func(subjects []rbacv1.Subject) {
		for _, subject := range subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == metav1.NamespaceSystem {
				accounts.Insert(serviceaccount.MakeUsername(subject.Namespace, subject.Name))
			}
		}
	}
	for _, binding := range bootstrappolicy.ControllerRoleBindings() {
		add(binding.Subjects)
	}
	for _, binding := range bootstrappolicy.NamespaceRoleBindings()[metav1.NamespaceSystem] {
		add(binding.Subjects)
	}
	return accounts
}
