package kubeconfig

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"
)

// Roles are the ClusterRoles for users of upstream's bootstrap policy that [Bind] can
// bind.
func Roles() []string { return []string{"view", "edit", "admin"} }

// subjectOf returns the subject of a binding for a user name, which is
// system:serviceaccount:NAMESPACE:NAME for a service account.
func subjectOf(name string) *applyrbacv1.SubjectApplyConfiguration {
	if account, found := strings.CutPrefix(name, "system:serviceaccount:"); found {
		namespace, name, _ := strings.Cut(account, ":")
		return applyrbacv1.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(namespace).WithName(name)
	}
	return applyrbacv1.Subject().WithKind(rbacv1.UserKind).WithAPIGroup(rbacv1.GroupName).WithName(name)
}

// Bind binds the ClusterRole, one of [Roles], to the user or service account in the namespace, or in all
// namespaces if it is empty, and says what it has done. A binding of that name that others
// have made, with other subjects or another role, is an error.
func Bind(ctx context.Context, client kubernetes.Interface, user, role, namespace string) (done string, err error) {
	// RBAC allows each name that can be a segment of a path. Two users must not share a binding.
	name := strings.NewReplacer("/", "-", "%", "-").Replace(user)
	if name != user {
		name += fmt.Sprintf("-%x", sha256.Sum256([]byte(user)))[:9]
	}
	name += "-" + role
	reference := applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(role)
	options := metav1.ApplyOptions{FieldManager: "kube-hyper-mini-kubeconfig"}
	if namespace == "" {
		done = fmt.Sprintf("the ClusterRole %s in all namespaces (clusterrolebinding %q)", role, name)
		binding := applyrbacv1.ClusterRoleBinding(name).WithRoleRef(reference).WithSubjects(subjectOf(user))
		_, err = client.RbacV1().ClusterRoleBindings().Apply(ctx, binding, options)
	} else {
		done = fmt.Sprintf("the ClusterRole %s in namespace %s (rolebinding %q)", role, namespace, name)
		binding := applyrbacv1.RoleBinding(name, namespace).WithRoleRef(reference).WithSubjects(subjectOf(user))
		_, err = client.RbacV1().RoleBindings(namespace).Apply(ctx, binding, options)
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsInvalid(err):
		err = fmt.Errorf("%w; remove the binding, or rename it", err)
	case namespace != "" && apierrors.IsNotFound(err):
		err = fmt.Errorf("%w; make it with kubectl create namespace %s", err, namespace)
	}
	if err != nil {
		return "", fmt.Errorf("give %s %s: %w", user, done, err)
	}
	return done, nil
}
