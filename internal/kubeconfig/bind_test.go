package kubeconfig

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestBind(t *testing.T) {
	taken := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "taken-view"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "taken"}},
	}
	empty := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "jane-view"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}
	for name, c := range map[string]struct {
		subject, role, namespace string
		want, refused            string
		kind                     string
	}{
		"a user in a namespace":   {"jane", "edit", "team", `the ClusterRole edit in namespace team (rolebinding "jane-edit")`, "", rbacv1.UserKind},
		"a user everywhere":       {"jane", "view", "", `in all namespaces (clusterrolebinding "jane-view")`, "", rbacv1.UserKind},
		"a name with a slash":     {"oidc/jane", "view", "team", `"oidc-jane-view"`, "", rbacv1.UserKind},
		"a service account":       {"system:serviceaccount:team:robot", "admin", "team", `"system:serviceaccount:team:robot-admin"`, "", rbacv1.ServiceAccountKind},
		"an unknown role":         {"jane", "owner", "team", "", "view, edit, admin", ""},
		"a binding with the name": {"taken", "view", "team", "", "another role or other subjects", ""},
		"a binding of nobody":     {"jane", "view", "other", "", "another role or other subjects", ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(taken, empty)
			for range 2 { // the second time it is there
				err := Bind(t.Context(), client, c.subject, c.role, c.namespace)
				if c.refused != "" {
					if err == nil || !strings.Contains(err.Error(), c.refused) {
						t.Errorf("the error is %v, want %q", err, c.refused)
					}
					return
				}
				if err != nil {
					t.Error(err)
				}
				if got, err := Bound(t.Context(), client, c.subject, nil); err != nil || len(got) != 1 || !strings.Contains(got[0], c.want) {
					t.Errorf("got %q, %v, want %q", got, err, c.want)
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
				if err != nil || len(list.Items) != 2 {
					t.Fatalf("bindings %v, %v", list.Items, err)
				}
				for _, binding := range list.Items {
					if binding.Name != taken.Name {
						subjects = binding.Subjects
					}
				}
			}
			if len(subjects) != 1 || subjects[0].Kind != c.kind {
				t.Errorf("subjects are %+v", subjects)
			}
		})
	}
}

// TestBound: a user has the roles of his groups, too, and others have not.
func TestBound(t *testing.T) {
	client := fake.NewClientset(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "developers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "developers"},
			{Kind: rbacv1.ServiceAccountKind, Namespace: "team", Name: "jane"},
		},
	})
	for user, want := range map[string]int{"jane": 1, "system:serviceaccount:team:jane": 1, "system:serviceaccount:other:jane": 0} {
		var groups []string
		if user == "jane" {
			if got, err := Bound(t.Context(), client, user, nil); err != nil || len(got) != 0 {
				t.Errorf("%s without the group has %q, %v", user, got, err)
			}
			groups = []string{"developers"}
		}
		if got, err := Bound(t.Context(), client, user, groups); err != nil || len(got) != want {
			t.Errorf("%s has %q, %v", user, got, err)
		}
	}
}
