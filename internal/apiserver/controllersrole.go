package apiserver

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

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
