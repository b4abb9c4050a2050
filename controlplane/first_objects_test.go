package controlplane_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

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
}

// TestFirstObjects: the objects that a new server stores without requests are those that a later
// start creates, by requests, where they were deleted. They are encrypted where that is configured.
func TestFirstObjects(t *testing.T) {
	encrypting := config.Default()
	encrypting.APIServer.Encryption.Resources = []string{"roles.rbac.authorization.k8s.io"}
	options := controlplane.Options{Dir: t.TempDir(), Config: encrypting}
	stored := readFirst(t, options, true)
	database, err := os.ReadFile(filepath.Join(options.Dir, "etcd", "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?s)/registry/roles/kube-public/.{1,60}k8s:enc:`).Match(database) {
		t.Error("the roles are not encrypted")
	}
	created := readFirst(t, options, false)
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
			unstructured.RemoveNestedField(object.Object, "status")
			if object.Object["aggregationRule"] != nil {
				delete(object.Object, "rules") // set by a controller, later
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

// readFirst starts a server, and returns and may delete the objects.
func readFirst(t *testing.T, options controlplane.Options, remove bool) map[string]*unstructured.Unstructured {
	t.Helper()
	cp := start(t, options)
	defer func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	client, read := dynamic.NewForConfigOrDie(cp.RESTConfig()), map[string]*unstructured.Unstructured{}
	for _, resource := range firstObjects {
		list, err := client.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			t.Errorf("there are no %s", resource.Resource)
		}
		for _, object := range list.Items {
			read[resource.Resource+" "+object.GetNamespace()+"/"+object.GetName()] = &object
			if !remove {
				continue
			}
			objects := client.Resource(resource).Namespace(object.GetNamespace())
			if err := objects.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	return read
}
