package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/fstest"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// TestRefusals: an error of Mutate or Validate is a 403 that names the object and the admission,
// unless it has a status of its own.
func TestRefusals(t *testing.T) {
	refuse := func(_ context.Context, a admission.Attributes) error {
		switch a.GetName() {
		case "plain":
			return errors.New("not here")
		case "gone":
			return apierrors.NewResourceExpired("not any more")
		case "wrapped":
			return fmt.Errorf("look elsewhere: %w", apierrors.NewResourceExpired("not any more"))
		}
		return nil
	}
	for name, a := range map[string]controlplane.Admission{
		"Mutate": {Name: "keeper", Mutate: refuse}, "Validate": {Name: "keeper", Validate: refuse},
	} {
		cp := start(t, controlplane.Options{Admission: []controlplane.Admission{a}})
		maps := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoreV1().ConfigMaps("default")
		for object, want := range map[string]metav1.Status{
			"plain": {Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
				Message: `configmaps "plain" is forbidden: keeper: not here`},
			"gone": {Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "not any more"},
			"wrapped": {Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
				Message: `configmaps "wrapped" is forbidden: keeper: look elsewhere: not any more`},
		} {
			_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: object}}, metav1.CreateOptions{})
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != want.Code || status.Status().Reason != want.Reason ||
				status.Status().Message != want.Message {
				t.Errorf("%s, %s: %#v, want %+v", name, object, err, want)
			}
		}
	}
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// TestAdmissionGetsPublicTypes: the objects of all operations have the types that a program knows,
// and what Mutate changes in them, once, is stored, with defaults. The manifests are applied before
// the start returns.
func TestAdmissionGetsPublicTypes(t *testing.T) {
	var seen sync.Map // by operation and resource, the types of object and old object
	cp := start(t, controlplane.Options{
		Resources: []controlplane.Resource{boatsOfTwoVersions()}, Manifests: fstest.MapFS{
			"crds/widgets.yaml": {Data: []byte(widgets)}, "README.md": {Data: []byte("no manifest")}},
		Admission: []controlplane.Admission{{Name: "types",
			Mutate: func(_ context.Context, a admission.Attributes) error {
				switch o := a.GetObject().(type) {
				case *corev1.ConfigMap:
					o.Data = map[string]string{"mutated": o.Data["mutated"] + "yes"}
				case *rbacv1.RoleBinding:
					o.Subjects = append(o.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "jane"})
				case *Boat:
					o.Spec.Extra = map[string]string{"mutated": o.Spec.Extra["mutated"] + "yes"}
				case *unstructured.Unstructured:
					before, _, _ := unstructured.NestedString(o.Object, "spec", "mutated")
					return unstructured.SetNestedField(o.Object, before+"yes", "spec", "mutated")
				case metav1.Object: // the CRD of the manifests
					if a.GetResource() == crdResource {
						o.SetLabels(map[string]string{"mutated": "yes"})
					}
				}
				return nil
			},
			Validate: func(_ context.Context, a admission.Attributes) error {
				key := fmt.Sprint(a.GetOperation(), " ", a.GetResource().Resource, " ", a.GetSubresource())
				seen.Store(key, fmt.Sprintf("%T %T", a.GetObject(), a.GetOldObject()))
				if o, ok := a.GetObject().(*corev1.ConfigMap); ok && o.Immutable != nil {
					return errors.New("no immutable ones")
				}
				return nil
			},
		}},
	})
	ctx, client := t.Context(), dynamic.NewForConfigOrDie(cp.RESTConfig())
	immutable := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "immutable"}, Immutable: new(bool)}
	core := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoreV1()
	if _, err := core.ConfigMaps("default").Create(ctx, immutable, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what Validate refuses: %v", err)
	}
	old := boat("one", map[string]any{"size": int64(7)})
	old.SetAPIVersion("sea.example.com/v1beta1")
	named := map[string]any{"name": "one"}
	for _, test := range []struct {
		resource schema.GroupVersionResource
		object   *unstructured.Unstructured
		path     []string // of what Mutate sets
		goType   string
	}{
		{corev1.SchemeGroupVersion.WithResource("configmaps"), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}}, []string{"data", "mutated"}, "*v1.ConfigMap"},
		{boatResource, boat("two", map[string]any{"length": int64(7)}), []string{"spec", "extra", "mutated"}, fmt.Sprintf("%T", &Boat{})},
		{boatResource.GroupResource().WithVersion("v1beta1"), old, nil, fmt.Sprintf("%T", &Boat{})},
		{schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": named}}, []string{"spec", "mutated"}, "*unstructured.Unstructured"},
	} {
		objects := client.Resource(test.resource).Namespace("default")
		name := test.object.GetName()
		made, err := objects.Create(ctx, test.object, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("create %v: %v", test.resource, err)
		}
		if mutated, _, _ := unstructured.NestedString(made.Object, test.path...); len(test.path) > 0 && mutated != "yes" {
			t.Errorf("%v lacks what Mutate has set: %v", test.resource, made)
		}
		_, err = objects.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		if err == nil {
			err = objects.Delete(ctx, name, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Errorf("change %v: %v", test.resource, err)
		}
		for operation, want := range map[string]string{
			"CREATE": test.goType + " <nil>", "UPDATE": test.goType + " " + test.goType, "DELETE": "<nil> " + test.goType,
		} {
			if got, _ := seen.Load(operation + " " + test.resource.Resource + " "); got != want {
				t.Errorf("%s of %v: %v, want %s", operation, test.resource, got, want)
			}
		}
	}
	if crd, err := client.Resource(crdResource).Get(ctx, "widgets.example.com", metav1.GetOptions{}); err != nil || crd.GetLabels()["mutated"] != "yes" {
		t.Errorf("the CRD: %v, %v", crd, err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "one"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}}
	binding, err := kubernetes.NewForConfigOrDie(cp.RESTConfig()).RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{})
	if err != nil || len(binding.Subjects) != 1 || binding.Subjects[0].APIGroup != rbacv1.GroupName {
		t.Errorf("a binding to which Mutate has added a subject: %v, %v", binding, err)
	}
	if _, err := core.ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a token: %v", err)
	}
	if got, _ := seen.Load("CREATE serviceaccounts token"); got != "*v1.TokenRequest <nil>" {
		t.Errorf("a token: %v", got)
	}
	if _, err := core.RESTClient().Post().AbsPath("/apis/sea.example.com/v1/namespaces/default/boats/none/launch").DoRaw(ctx); !apierrors.IsNotFound(err) {
		t.Errorf("a request to a handler: %v", err)
	}
	if got, _ := seen.Load("CONNECT boats launch"); got != "<nil> <nil>" {
		t.Errorf("a request to a handler: %v", got)
	}
}
