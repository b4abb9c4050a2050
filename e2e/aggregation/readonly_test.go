package aggregation

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestVirtualResources puts the example server without a store behind the
// aggregator.
func TestVirtualResources(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	ca := newAuthority(t)
	const namespace, name, group = "virtual", "metrics", "metrics.k8s.io"
	port := harness.FreePort(t)
	e.endpoint(namespace, name, target(port))
	manifest := readFile(t, filepath.Join(harness.Root(t), "config", "examples", "sample-apiserver.yaml"))
	manifest = strings.NewReplacer("namespace: wardle", "namespace: virtual", "name: wardle\n", "name: virtual\n").Replace(manifest)
	documents := strings.Split(manifest, "\n---\n")
	e.Kubectl(strings.Join(documents[:6], "\n---\n"), "apply", "-f", "-") // identity and rights are the same
	e.apply(apiServices, map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1." + group},
		"spec": map[string]any{
			"group": group, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100, "caBundle": encode(ca.bundle),
			"service": map[string]any{"namespace": namespace, "name": name},
		},
	})
	files, kubeconfig := newCertificateFiles(t, ca, name+"."+namespace+".svc"), e.kubeconfigOf(namespace, "apiserver")
	binary := harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "./aggregation/readonlyserver", "readonlyserver")
	start(t, binary, "--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port), "--tls-cert-file", files.certificate,
		"--tls-private-key-file", files.key, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig)
	nodes := schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: "nodes"}
	client := e.Dynamic().Resource(nodes)
	var node *unstructured.Unstructured
	harness.Eventually(t, "the virtual object can be read", func() (err error) {
		node, err = client.Get(t.Context(), "self", metav1.GetOptions{})
		return err
	})
	if memory, _, _ := unstructured.NestedString(node.Object, "usage", "memory"); memory == "" || memory == "0" {
		t.Errorf("the object says nothing: %v", node.Object)
	}
	e.waitListed(group+"/v1beta1", true)
	if out := e.Kubectl("", "get", "nodes.metrics.k8s.io"); !strings.Contains(out, "self") {
		t.Errorf("the table is:\n%s", out)
	}
	if _, err := client.Get(t.Context(), "other", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object that there is not: %v", err)
	}
	if err := client.Delete(t.Context(), "self", metav1.DeleteOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a deletion of what cannot be deleted: %v", err)
	}
	t.Run("another type is seen through it", func(t *testing.T) { leasesAsPods(t, e.forTest(t), namespace, group) })
	t.Run("the identity arrives", func(t *testing.T) { identityArrives(t, e.forTest(t), group) })
	t.Run("a read-only type holds no namespace", func(t *testing.T) {
		e := e.forTest(t)
		doomed := unique("doomed")
		e.createNamespace(doomed)
		if err := e.Client().CoreV1().Namespaces().Delete(t.Context(), doomed, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.gone(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", doomed)
	})
}

// leasesAsPods reads leases of the main server as another type of the
// aggregated one, which does so with rights of its own.
func leasesAsPods(t *testing.T, e *environment, account, group string) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "leases"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list"}}}}
	if _, err := e.Client().RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leases"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "leases"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account, Name: "apiserver"}},
	}
	if _, err := e.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	namespace := unique("leases")
	e.createNamespace(namespace)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To[int32](42)}}
	if _, err := e.Client().CoordinationV1().Leases(namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := e.Dynamic().Resource(schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: "pods"}).Namespace(namespace)
	harness.Eventually(t, "the lease can be read as the other type", func() error {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].GetName() != "one" || list.Items[0].Object["window"] != "42s" {
			return fmt.Errorf("it is %v", list.Items)
		}
		return nil
	})
	if _, err := pods.Get(t.Context(), "other", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a lease that there is not: %v", err)
	}
}

// identityArrives impersonates a user with UID, groups and extra fields, and
// checks that the aggregated server receives all of them.
func identityArrives(t *testing.T, e *environment, group string) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "whoami"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{"nodes/whoami"}, Verbs: []string{"get"}}}}
	if _, err := e.Client().RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "whoami"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "whoami"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "crew"}},
	}
	if _, err := e.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := e.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane", UID: "u-1", Groups: []string{"crew"}, Extra: map[string][]string{"example.com/team": {"red", "blue"}}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Name, UID string
		Groups    []string
		Extra     map[string][]string
	}
	harness.Eventually(t, "the subresource answers", func() error {
		data, err := client.Discovery().RESTClient().Get().AbsPath("/apis/" + group + "/v1beta1/nodes/self/whoami").DoRaw(t.Context())
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &seen)
	})
	if seen.Name != "jane" || seen.UID != "u-1" || !slices.Contains(seen.Groups, "crew") || !slices.Equal(seen.Extra["example.com/team"], []string{"red", "blue"}) {
		t.Errorf("what has arrived: %+v", seen)
	}
}
