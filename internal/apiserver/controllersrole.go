package apiserver

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
)

// controllersRole is the role, in kube-system, of `kube-hyper-mini controllers`.
const controllersRole = "kube-hyper-mini:controllers"

// ensureControllersRole allows the user system:kube-controller-manager to take part in
// the leader election and to impersonate service accounts in kube-system. The process
// `kube-hyper-mini controllers` connects as this user. Upstream's bootstrap policy has
// its other rights.
func ensureControllersRole(client kubernetes.Interface) error {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: controllersRole}
	role := reconciliation.ReconcileRoleOptions{
		Role: reconciliation.RoleRuleOwner{Role: &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}},
			{Verbs: []string{"get", "create", "update"}, APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}},
		}}},
		Client:  reconciliation.RoleModifier{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
		Confirm: true,
	}
	binding := reconciliation.ReconcileRoleBindingOptions{
		RoleBinding: reconciliation.RoleBindingAdapter{RoleBinding: &rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: controllersRole},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.KubeControllerManager}},
		}},
		Client:  reconciliation.RoleBindingClientAdapter{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()},
		Confirm: true,
	}
	// Another server on the same etcd may write them at the same time.
	conflicts := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err := retry.OnError(retry.DefaultBackoff, conflicts, func() error {
		if _, err := role.Run(); err != nil {
			return err
		}
		_, err := binding.Run()
		return err
	})
	if err != nil {
		return fmt.Errorf("grant the controllers their role %s/%s: %w", metav1.NamespaceSystem, controllersRole, err)
	}
	return nil
}
