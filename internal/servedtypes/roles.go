package servedtypes

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ViewRole and EditRole are the cluster roles that have the types of all CRDs.
	ViewRole = "kube-hyper-mini:custom-resources:view"
	EditRole = "kube-hyper-mini:custom-resources:edit"
)

// Roles are ViewRole and EditRole without rules, which a controller writes. They are part of
// the roles view and edit, and so of admin.
func Roles() []rbacv1.ClusterRole {
	role := func(name, label string) rbacv1.ClusterRole {
		return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}}
	}
	return []rbacv1.ClusterRole{
		role(ViewRole, "rbac.authorization.k8s.io/aggregate-to-view"),
		role(EditRole, "rbac.authorization.k8s.io/aggregate-to-edit"),
	}
}
