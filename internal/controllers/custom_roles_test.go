package controllers

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
)

// TestCustomRoles: the roles follow the CRDs, except one that an administrator has excluded
// from reconciliation or deleted.
func TestCustomRoles(t *testing.T) {
	definitions := []string{"widgets.example.com", "apples.example.com", "things.example.org", "serviceendpoints.kube-hyper-mini.io", "a.sub.kube-hyper-mini.io"}
	for name, test := range map[string]struct {
		change func(view *rbacv1.ClusterRole) // nil: it does not exist
		want   []string                       // resources of view
	}{
		"ours": {func(*rbacv1.ClusterRole) {}, []string{"apples", "apples/scale", "apples/status", "widgets", "widgets/scale", "widgets/status", "things", "things/scale", "things/status"}},
		"excluded": {func(view *rbacv1.ClusterRole) {
			view.Annotations = map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}
		}, nil},
		"deleted": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			roles := servedtypes.Roles()
			client := fake.NewClientset(&roles[1])
			if test.change != nil {
				test.change(&roles[0])
				client = fake.NewClientset(&roles[0], &roles[1])
			}
			known := definitions
			c := &customRoles{definitions: func() []string { return known }, roles: client.RbacV1().ClusterRoles(), wake: make(chan struct{}, 1)}
			if err := c.update(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := resourcesIn(t, c, servedtypes.ViewRole); !slices.Equal(got, test.want) {
				t.Errorf("view has %q, want %q", got, test.want)
			}
			if got, want := resourcesIn(t, c, servedtypes.EditRole), []string{"apples", "apples/scale", "widgets", "widgets/scale", "things", "things/scale"}; !slices.Equal(got, want) {
				t.Errorf("edit has %q, want %q", got, want)
			}
			client.ClearActions()
			if err := c.update(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, action := range client.Actions() {
				if action.GetVerb() != "get" {
					t.Errorf("%s without a change", action.GetVerb())
				}
			}
			known = nil
			if err := c.update(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := slices.Concat(resourcesIn(t, c, servedtypes.ViewRole), resourcesIn(t, c, servedtypes.EditRole)); len(got) > 0 {
				t.Errorf("without CRDs the roles have %q", got)
			}
		})
	}
}

func resourcesIn(t *testing.T, c *customRoles, name string) []string {
	t.Helper()
	list, err := c.roles.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var resources []string
	for _, role := range list.Items {
		for _, rule := range role.Rules {
			if role.Name == name {
				resources = append(resources, rule.Resources...)
			}
		}
	}
	return resources
}
