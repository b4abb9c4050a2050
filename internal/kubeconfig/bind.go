package kubeconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Roles are the ClusterRoles for users of upstream's bootstrap policy that [Bind] can
// bind.
func Roles() []string { return []string{"view", "edit", "admin"} }

// subjectOf returns the subject of a binding for a user name, which is
// system:serviceaccount:NAMESPACE:NAME for a service account.
func subjectOf(name string) rbacv1.Subject {
	if account, found := strings.CutPrefix(name, "system:serviceaccount:"); found {
		namespace, name, _ := strings.Cut(account, ":")
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

// Bind binds the ClusterRole to the user or service account in the namespace, or in all
// namespaces if it is empty. A binding of that name that has other subjects or another role
// is an error.
func Bind(ctx context.Context, client kubernetes.Interface, user, role, namespace string) error {
	if !slices.Contains(Roles(), role) {
		return fmt.Errorf("role %q is not one of %s", role, strings.Join(Roles(), ", "))
	}
	// RBAC allows each name that can be a segment of a path.
	name := strings.NewReplacer("/", "-", "%", "-").Replace(user) + "-" + role
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{subjectOf(user)}
	var err error
	kind, where := "clusterrolebinding", "in all namespaces"
	current, bound := reference, subjects // of a binding that exists
	if namespace == "" {
		bindings := client.RbacV1().ClusterRoleBindings()
		_, err = bindings.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			var old *rbacv1.ClusterRoleBinding
			if old, err = bindings.Get(ctx, name, metav1.GetOptions{}); err == nil {
				current, bound = old.RoleRef, old.Subjects
			}
		}
	} else {
		kind, where = "rolebinding", "in namespace "+namespace
		bindings := client.RbacV1().RoleBindings(namespace)
		_, err = bindings.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			var old *rbacv1.RoleBinding
			if old, err = bindings.Get(ctx, name, metav1.GetOptions{}); err == nil {
				current, bound = old.RoleRef, old.Subjects
			}
		}
	}
	if namespace != "" && apierrors.IsNotFound(err) {
		return fmt.Errorf("bind the ClusterRole %s to %s %s: %w; make it with kubectl create namespace %s", role, user, where, err, namespace)
	}
	if err != nil {
		return fmt.Errorf("bind the ClusterRole %s to %s %s: %w", role, user, where, err)
	}
	if current != reference || !equality.Semantic.DeepEqual(bound, subjects) {
		return fmt.Errorf("bind the ClusterRole %s to %s: the %s %q exists with another role or other subjects; remove or rename it", role, user, kind, name)
	}
	return nil
}

// Bound describes the roles that are bound to the user or service account, or to one of the
// groups; not those of groups that every user has.
func Bound(ctx context.Context, client kubernetes.Interface, user string, groups []string) ([]string, error) {
	subject := subjectOf(user)
	found := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == subject.Kind && s.Name == subject.Name && s.Namespace == subject.Namespace || s.Kind == rbacv1.GroupKind && slices.Contains(groups, s.Name)
		})
	}
	everywhere, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the roles of %s: %w", user, err)
	}
	inNamespaces, err := client.RbacV1().RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the roles of %s: %w", user, err)
	}
	var roles []string
	for _, binding := range everywhere.Items {
		if found(binding.Subjects) {
			roles = append(roles, fmt.Sprintf("the ClusterRole %s in all namespaces (clusterrolebinding %q)", binding.RoleRef.Name, binding.Name))
		}
	}
	for _, binding := range inNamespaces.Items {
		if found(binding.Subjects) {
			roles = append(roles, fmt.Sprintf("the %s %s in namespace %s (rolebinding %q)", binding.RoleRef.Kind, binding.RoleRef.Name, binding.Namespace, binding.Name))
		}
	}
	return roles, nil
}
