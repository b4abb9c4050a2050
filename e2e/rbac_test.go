package e2e

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func TestRBACAllowsAndDenies(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, other, user := namespace(t, s), namespace(t, s), unique("jane")
	list := []string{"get", "configmaps", "-n", ns, "--as", user}
	s.Kubectl("", "create", "configmap", "readable", "-n", ns)
	refused(t, s, "", list, "Forbidden", fmt.Sprintf("User %q cannot list resource %q", user, "configmaps"), ns)

	s.Kubectl("", "create", "role", "reader", "-n", ns, "--verb=get,list", "--resource=configmaps")
	s.Kubectl("", "create", "rolebinding", "reader", "-n", ns, "--role=reader", "--user="+user)
	eventuallyCan(t, s, user, ns, "list", "configmaps")
	harness.Contains(t, s.Kubectl("", list...), "readable")
	refused(t, s, "", []string{"create", "configmap", "x", "-n", ns, "--as", user}, "forbidden", "cannot create")
	refused(t, s, "", []string{"get", "configmaps", "-n", other, "--as", user}, "Forbidden", other)
	refused(t, s, "", []string{"get", "secrets", "-n", ns, "--as", user}, "Forbidden")
	if out, err := s.TryKubectl("", "auth", "can-i", "delete", "configmaps", "-n", ns, "--as", user); err == nil {
		t.Errorf("can-i says that the reader may delete:\n%s", out)
	}

	s.Kubectl("", "delete", "rolebinding", "reader", "-n", ns)
	harness.Eventually(t, "the reader has lost the right", func() error { return can(t, s, user, ns, "list", "configmaps", false) })
}

// TestRBACEscalation: users who may write roles cannot grant rights that they
// lack.
func TestRBACEscalation(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, user := namespace(t, s), unique("jane")
	s.Kubectl("", "create", "role", "editor", "-n", ns, "--verb=get,list,create", "--resource=configmaps,roles,rolebindings")
	s.Kubectl("", "create", "rolebinding", "editor", "-n", ns, "--role=editor", "--user="+user)
	eventuallyCan(t, s, user, ns, "create", "roles.rbac.authorization.k8s.io")

	s.Kubectl("", "create", "role", "fewer", "-n", ns, "--verb=get", "--resource=configmaps", "--as", user)
	refused(t, s, "", []string{"create", "role", "more", "-n", ns, "--verb=get", "--resource=secrets", "--as", user},
		"attempting to grant RBAC permissions not currently held", `Resources:["secrets"]`)
	refused(t, s, "", []string{"create", "rolebinding", "more", "-n", ns, "--clusterrole=admin", "--user=" + user, "--as", user},
		"attempting to grant RBAC permissions not currently held")
	refused(t, s, "", []string{"create", "clusterrolebinding", unique("more"), "--clusterrole=cluster-admin", "--user=" + user, "--as", user}, "forbidden")

	// The verb bind permits it.
	s.Kubectl("", "create", "role", "binder", "-n", ns, "--verb=bind", "--resource=clusterroles.rbac.authorization.k8s.io", "--resource-name=admin")
	s.Kubectl("", "create", "rolebinding", "binder", "-n", ns, "--role=binder", "--user="+user)
	harness.Eventually(t, "bind is granted", func() error {
		_, err := s.TryKubectl("", "create", "rolebinding", "admin", "-n", ns, "--clusterrole=admin", "--user="+user, "--as", user)
		return err
	})
}

// TestRBACAggregation: view, edit and admin have the types of CRDs, until these are deleted.
func TestRBACAggregation(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, user, k := namespace(t, s), unique("jane"), newKind()
	editor, admin := unique("editor"), unique("admin")
	define(t, s, k, k.definition("Namespaced"))
	s.Kubectl("", "create", "rolebinding", "view", "-n", ns, "--clusterrole=view", "--user="+user)
	s.Kubectl("", "create", "rolebinding", "edit", "-n", ns, "--clusterrole=edit", "--user="+editor)
	s.Kubectl("", "create", "rolebinding", "admin", "-n", ns, "--clusterrole=admin", "--user="+admin)
	eventuallyCan(t, s, user, ns, "list", "configmaps")
	eventuallyCan(t, s, user, ns, "list", k.crd())
	harness.Contains(t, s.Kubectl("", "get", k.crd(), "-n", ns, "--as", user), "No resources found")
	for _, writer := range []string{editor, admin} {
		eventuallyCan(t, s, writer, ns, "create", k.crd())
		eventuallyCan(t, s, writer, ns, "list", k.crd())
	}
	refused(t, s, k.object("some", "spec: {size: 3}"), []string{"create", "-n", ns, "-f", "-", "--as", user}, "forbidden", "cannot create")
	harness.Contains(t, s.Kubectl(k.object("some", "spec: {size: 3}"), "create", "-n", ns, "-f", "-", "--as", editor), "some created")
	// ServiceEndpoints are in view from the start, because kubectl get all lists them.
	harness.Contains(t, s.Kubectl("", "get", "serviceendpoints", "-n", ns, "--as", user), "No resources found")
	if err := can(t, s, admin, ns, "create", "serviceendpoints.kube-hyper-mini.io", false); err != nil {
		t.Errorf("an admin of a namespace decides where requests of the server go: %v", err)
	}

	s.Kubectl("", "delete", "crd", k.crd())
	harness.Eventually(t, "view has lost the rule", func() error { return can(t, s, user, ns, "list", k.crd(), false) })
}

// eventuallyCan waits until the authorizer has a new binding.
func eventuallyCan(t *testing.T, s *harness.Server, user, ns, verb, resource string) {
	t.Helper()
	harness.Eventually(t, user+" may "+verb+" "+resource, func() error { return can(t, s, user, ns, verb, resource, true) })
}

func can(t *testing.T, s *harness.Server, user, ns, verb, resource string, want bool) error {
	t.Helper()
	gr := schema.ParseGroupResource(resource)
	review, err := s.Client().AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: ns, Verb: verb, Group: gr.Group, Resource: gr.Resource}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if review.Status.Allowed != want {
		return fmt.Errorf("allowed is %t: %s", review.Status.Allowed, review.Status.Reason)
	}
	return nil
}
