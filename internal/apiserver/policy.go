package apiserver

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// policyPoll is the interval at which AwaitPolicy checks the caches of the authorizer.
const policyPoll = 2 * time.Millisecond

// AwaitPolicy returns when the caches of the RBAC authorizer have the bootstrap policy
// that [kube.EnsureRBAC] has written, some milliseconds after the writes. An informer
// whose request is refused before that retries only after a second.
func (s *Server) AwaitPolicy(ctx context.Context) error {
	if !s.rbac {
		return nil
	}
	rbac := s.informers.Rbac().V1()
	roles, bindings := rbac.ClusterRoles().Lister(), rbac.ClusterRoleBindings().Lister()
	seen := func(context.Context) (bool, error) {
		for _, binding := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
			if _, err := bindings.Get(binding.Name); err != nil {
				return false, nil
			}
			if _, err := roles.Get(binding.RoleRef.Name); err != nil {
				return false, nil
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextCancel(ctx, policyPoll, true, seen); err != nil {
		return fmt.Errorf("wait until the RBAC authorizer has the bootstrap policy: %w", context.Cause(ctx))
	}
	return nil
}

// controllersRole allows the user system:kube-controller-manager to take part in the leader
// election and to impersonate service accounts in kube-system. The process
// `kube-hyper-mini controllers` connects as this user. Upstream's bootstrap policy has
// its other rights.
func controllersRole() (rbacv1.Role, rbacv1.RoleBinding) {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-hyper-mini:controllers"}
	role := rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}},
		{Verbs: []string{"get", "create", "update"}, APIGroups: []string{coordinationv1.GroupName},
			Resources: []string{"leases"}},
	}}
	return role, rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.KubeControllerManager}},
	}
}
