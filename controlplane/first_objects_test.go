package controlplane_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// firstObjects are the types of objects that a new server stores without requests.
var firstObjects = []schema.GroupVersionResource{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "prioritylevelconfigurations"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"},
	apiServices, // last: without them the others cannot be deleted
}

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// TestFirstObjects: the objects that a new server stores without requests are those that a later
// start creates, by requests, where they were deleted, and as its controllers leave them. They are
// encrypted where that is configured.
func TestFirstObjects(t *testing.T) {
	encrypting := config.Default()
	encrypting.APIServer.Encryption.Resources = []string{"roles.rbac.authorization.k8s.io"}
	options := controlplane.Options{Dir: t.TempDir(), Config: encrypting}
	stored := readFirst(t, options, nil)
	database, err := os.ReadFile(filepath.Join(options.Dir, "etcd", "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?s)/registry/roles/kube-public/.{1,60}k8s:enc:`).Match(database) {
		t.Error("the roles are not encrypted")
	}
	created := readFirst(t, options, stored)
	for key, object := range stored {
		if made := object.GetCreationTimestamp(); object.GetUID() == "" || made.IsZero() {
			t.Errorf("%s has the UID %q and the time %v", key, object.GetUID(), made)
		}
		again, found := created[key]
		if !found {
			t.Errorf("no request creates %s", key)
			continue
		}
		if again.GetUID() == object.GetUID() {
			t.Errorf("%s was not deleted", key)
		}
		for _, object := range []*unstructured.Unstructured{object, again} {
			object.SetUID("")
			object.SetCreationTimestamp(metav1.Time{})
			object.SetResourceVersion("")
			object.SetManagedFields(nil)
			conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
			for _, condition := range conditions {
				delete(condition.(map[string]any), "lastTransitionTime")
			}
			if len(conditions) > 0 {
				_ = unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions")
			}
		}
		if !equality.Semantic.DeepEqual(object.Object, again.Object) {
			t.Errorf("stored was %v, a request creates %v", object.Object, again.Object)
		}
	}
	for key := range created {
		if stored[key] == nil {
			t.Errorf("a new server has not stored %s", key)
		}
	}
}

// readFirst starts a server, and returns the objects. Without those of an earlier start it deletes
// them; else it waits until roles have as many rules as those: their controller adds some.
func readFirst(t *testing.T, options controlplane.Options, earlier map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	cp := start(t, options)
	defer func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var removals []func() error // called when all is read: controllers act on them
	remove := earlier == nil
	client, read := dynamic.NewForConfigOrDie(cp.RESTConfig()), map[string]*unstructured.Unstructured{}
	for _, resource := range firstObjects {
		var list *unstructured.UnstructuredList
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (_ bool, err error) {
			list, err = client.Resource(resource).List(ctx, metav1.ListOptions{})
			return err == nil && (remove || haveRules(list, earlier)), err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			t.Errorf("there are no %s", resource.Resource)
		}
		for _, object := range list.Items {
			if resource == apiServices && object.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] != "onstart" {
				continue // that of a CRD
			}
			if remove && len(object.GetManagedFields()) > 0 {
				t.Errorf("%s/%s was written again by %s", resource.Resource, object.GetName(), object.GetManagedFields()[0].Manager)
			}
			read[keyOf(object)] = &object
			removals = append(removals, func() error {
				return client.Resource(resource).Namespace(object.GetNamespace()).Delete(t.Context(), object.GetName(), metav1.DeleteOptions{})
			})
		}
	}
	if !remove {
		return read
	}
	for _, removal := range removals {
		if err := removal(); err != nil {
			t.Error(err)
		}
	}
	return read
}

func keyOf(object unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// haveRules reports whether objects that take rules from others have as many as the earlier ones.
func haveRules(list *unstructured.UnstructuredList, earlier map[string]*unstructured.Unstructured) bool {
	return !slices.ContainsFunc(list.Items, func(object unstructured.Unstructured) bool {
		known := earlier[keyOf(object)]
		if known == nil || object.Object["aggregationRule"] == nil {
			return false
		}
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		wanted, _, _ := unstructured.NestedSlice(known.Object, "rules")
		return len(rules) != len(wanted)
	})
}

// TestNamespacesOfANewServer: the namespaces that a new server stores without requests are as one that
// a request creates.
func TestNamespacesOfANewServer(t *testing.T) {
	cp := start(t, controlplane.Options{})
	namespaces := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoreV1().Namespaces()
	created, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "created"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic} {
		stored, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{corev1.LabelMetadataName: name}
		if !maps.Equal(stored.Labels, labels) || !equality.Semantic.DeepEqual(stored.Spec, created.Spec) || stored.Status.Phase != created.Status.Phase {
			t.Errorf("%s has labels %v, %+v, %+v; created was %v", name, stored.Labels, stored.Spec, stored.Status, created)
		}
	}
}
