package apiserver

import (
	"context"
	"net/http"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// Names of requesters that are no users.
const (
	controllerRequesters = "" // the servers and their controllers
	masterRequesters     = user.SystemPrivilegedGroup
)

// ofControllers is the key of a *bool in the context of a request: whether it comes from this process, or
// refuseRevoked has authenticated the controllers of another one. Users may impersonate their names.
type ofControllers struct{}

func markControllers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ofControllers{}, new(kube.FromLoopback(r)))))
	})
}

// requesterName returns the name under which a request counts: controllerRequesters, masterRequesters, the
// namespace of a service account, or the user. A client that may create one account may create any
// number. The controllers do not share with users, nor with other accounts of kube-system, which may
// be those of operators.
func requesterName(ctx context.Context) string {
	requester, known := request.UserFrom(ctx)
	if !known {
		requester = &user.DefaultInfo{Name: user.Anonymous}
	}
	name, master := requester.GetName(), slices.Contains(requester.GetGroups(), user.SystemPrivilegedGroup)
	marked, _ := ctx.Value(ofControllers{}).(*bool)
	switch {
	case marked != nil && *marked && (name == user.APIServerUser && master || name == user.KubeControllerManager ||
		controllerAccounts().Has(name)):
		return controllerRequesters
	case master:
		return masterRequesters
	}
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		return "namespace " + namespace
	}
	return "user " + name
}

// controllerAccounts returns the user names of the service accounts that the bootstrap
// policy binds to roles in kube-system or in all namespaces: those of the controllers. They
// are not changed.
var controllerAccounts = sync.OnceValue(func() sets.Set[string] {
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
})
