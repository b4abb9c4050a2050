package kubeconfig

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestBind(t *testing.T) {
	for name, c := range map[string]struct {
		subject, role, namespace string
		want, kind               string
	}{
		"a user in a namespace": {"jane", "edit", "team", `the ClusterRole edit in namespace team (rolebinding "jane-edit")`, rbacv1.UserKind},
		"a user everywhere":     {"jane", "view", "", `in all namespaces (clusterrolebinding "jane-view")`, rbacv1.UserKind},
		"a name with a slash":   {"oidc/jane", "view", "team", `"oidc-jane-77090f80-view"`, rbacv1.UserKind},
		"a service account":     {"system:serviceaccount:team:robot", "admin", "team", `"system:serviceaccount:team:robot-admin"`, rbacv1.ServiceAccountKind},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			for range 2 { // the second time it is there
				done, err := Bind(t.Context(), client, c.subject, c.role, c.namespace)
				if err != nil || !strings.Contains(done, c.want) {
					t.Errorf("%q, %v, want %q", done, err, c.want)
				}
			}
			var subjects []rbacv1.Subject
			if c.namespace == "" {
				list, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
				if err != nil || len(list.Items) != 1 {
					t.Fatalf("bindings %v, %v", list.Items, err)
				}
				subjects = list.Items[0].Subjects
			} else {
				list, err := client.RbacV1().RoleBindings(c.namespace).List(t.Context(), metav1.ListOptions{})
				if err != nil || len(list.Items) != 1 {
					t.Fatalf("bindings %v, %v", list.Items, err)
				}
				subjects = list.Items[0].Subjects
			}
			if len(subjects) != 1 || subjects[0].Kind != c.kind {
				t.Errorf("subjects are %+v", subjects)
			}
		})
	}
}

// TestBindUsersWithSimilarNames: each keeps its role.
func TestBindUsersWithSimilarNames(t *testing.T) {
	client, bound := fake.NewClientset(), map[string]bool{}
	users := []string{"corp/jane", "corp%jane", "corp-jane"}
	for _, user := range users {
		if _, err := Bind(t.Context(), client, user, "edit", "team"); err != nil {
			t.Fatal(err)
		}
	}
	list, err := client.RbacV1().RoleBindings("team").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range list.Items {
		for _, subject := range binding.Subjects {
			bound[subject.Name] = true
		}
	}
	for _, user := range users {
		if !bound[user] {
			t.Errorf("%s is not bound: %v", user, bound)
		}
	}
}
