package differences

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// ownPrefix begins the names of roles and bindings that kube-apiserver does not have.
const ownPrefix = "kube-hyper-mini:"

// TestBootstrapPolicyIsKubeAPIServers: the roles and bindings of a new server are those
// that the post-start hook of kube-apiserver creates with requests. The controllers are off. The
// rules of aggregated roles are those of one of them, to which TestFirstObjects compares them.
func TestBootstrapPolicyIsKubeAPIServers(t *testing.T) {
	// This server switches it on: a role is for its controller.
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.StorageVersionMigrator, true)
	s := harness.Start(t, "--config", harness.ConfigFile(t, "controllerManager: {controllers: []}\n"))
	own := policy(t, s)
	rbac := s.Client().RbacV1()
	err := errors.Join(
		rbac.ClusterRoleBindings().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
		rbac.ClusterRoles().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
	)
	for _, namespace := range []string{metav1.NamespaceSystem, metav1.NamespacePublic} {
		err = errors.Join(err,
			rbac.RoleBindings(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
			rbac.Roles(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
		)
	}
	if err != nil {
		t.Fatal(err)
	}
	if left := policy(t, s); len(left) > 0 {
		t.Fatalf("not deleted: %q", slices.Collect(maps.Keys(left)))
	}
	_, hook, err := rbacrest.RESTStorageProvider{}.PostStartHook()
	if err == nil {
		err = hook(genericapiserver.PostStartHookContext{LoopbackClientConfig: s.RESTConfig(), Context: t.Context()})
	}
	if err != nil {
		t.Fatal(err)
	}
	upstream := policy(t, s)
	if len(upstream) < 100 {
		t.Errorf("the hook has made %d objects", len(upstream))
	}
	if difference := cmp.Diff(upstream, own); difference != "" {
		t.Errorf("the policy differs from kube-apiserver's (-):\n%s", difference)
	}
}

// policy returns the stored roles and bindings, without what differs between any two
// objects and without managed fields.
func policy(t *testing.T, s *harness.Server) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	for _, resource := range []string{"clusterroles", "clusterrolebindings", "roles", "rolebindings"} {
		list, err := s.Dynamic().Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: resource}).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			if strings.HasPrefix(object.GetName(), ownPrefix) {
				continue
			}
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
				unstructured.RemoveNestedField(object.Object, "metadata", field)
			}
			if object.Object["aggregationRule"] != nil {
				delete(object.Object, "rules")
			}
			objects[resource+" "+object.GetNamespace()+" "+object.GetName()] = object.Object
		}
	}
	return objects
}
