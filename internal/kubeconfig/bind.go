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

// Subject is the subject of [Bind]: a user, or a service account with its namespace.
type Subject struct {
	// Name is the user name, system:serviceaccount:NAMESPACE:NAME for a service
	// account.
	Name string
}

// reference is the subject of a binding.
func (s Subject) reference() rbacv1.Subject {
	if account, found := strings.CutPrefix(s.Name, "system:serviceaccount:"); found {
		namespace, name, _ := strings.Cut(account, ":")
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: s.Name}
}

// Bind binds the ClusterRole to the subject in the namespace, or in all
// namespaces if it is empty, and returns a sentence about it. A binding of
// that name that has other subjects or another role is an error.
func Bind(ctx context.Context, client kubernetes.Interface, subject Subject, role, namespace string) (string, error) {
	if !slices.Contains(Roles(), role) {
		return "", fmt.Errorf("role %q is not one of %s", role, strings.Join(Roles(), ", "))
	}
	// RBAC allows each name that can be a segment of a path.
	name := strings.NewReplacer("/", "-", "%", "-").Replace(subject.Name) + "-" + role
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{subject.reference()}
	var err error
	kind, where := "clusterrolebinding", "in all namespaces"
	exists := false
	var current rbacv1.RoleRef
	var bound []rbacv1.Subject
	if namespace == "" {
		bindings := client.RbacV1().ClusterRoleBindings()
		_, err = bindings.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			var old *rbacv1.ClusterRoleBinding
			if old, err = bindings.Get(ctx, name, metav1.GetOptions{}); err == nil {
				exists, current, bound = true, old.RoleRef, old.Subjects
			}
		}
	} else {
		kind, where = "rolebinding", "in namespace "+namespace
		bindings := client.RbacV1().RoleBindings(namespace)
		_, err = bindings.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			var old *rbacv1.RoleBinding
			if old, err = bindings.Get(ctx, name, metav1.GetOptions{}); err == nil {
				exists, current, bound = true, old.RoleRef, old.Subjects
			}
		}
	}
	if namespace != "" && apierrors.IsNotFound(err) {
		return "", fmt.Errorf("bind the ClusterRole %s to %s %s: %w; make it with kubectl create namespace %s", role, subject.Name, where, err, namespace)
	}
	if err != nil {
		return "", fmt.Errorf("bind the ClusterRole %s to %s %s: %w", role, subject.Name, where, err)
	}
	if exists && (current != reference || !equality.Semantic.DeepEqual(bound, subjects)) {
		return "", fmt.Errorf("bind the ClusterRole %s to %s: the %s %q exists with another role or other subjects; remove or rename it", role, subject.Name, kind, name)
	}
	return fmt.Sprintf("%s has the ClusterRole %s %s (%s %q)", subject.Name, role, where, kind, name), nil
}
