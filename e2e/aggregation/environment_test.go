package aggregation

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

var (
	serviceEndpoints = schema.GroupVersionResource{Group: "kube-hyper-mini.io", Version: "v1alpha1", Resource: "serviceendpoints"}
	apiServices      = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	namespaces       = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps       = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// environment is a server under test, with helpers for its ServiceEndpoints and
// APIServices.
type environment struct {
	*harness.Server
	t testing.TB
}

func newEnvironment(t testing.TB, args ...string) *environment {
	t.Helper()
	return &environment{harness.Start(t, args...), t}
}

// forTest returns the same environment for a subtest, which its failures fail.
func (e *environment) forTest(t testing.TB) *environment { return &environment{e.For(t), t} }

func target(port int) string { return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func unique(prefix string) string { return prefix + "-" + rand.String(6) }

func (e *environment) createNamespace(name string) {
	e.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := e.Client().CoreV1().Namespaces().Create(e.t.Context(), namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		e.t.Fatalf("make namespace %s: %v", name, err)
	}
}

// apply applies an object as the administrator.
func (e *environment) apply(resource schema.GroupVersionResource, object map[string]any) {
	e.t.Helper()
	o := &unstructured.Unstructured{Object: object}
	data, err := json.Marshal(object)
	if err != nil {
		e.t.Fatal(err)
	}
	_, err = e.Dynamic().Resource(resource).Namespace(o.GetNamespace()).Patch(e.t.Context(), o.GetName(), types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: "test", Force: ptr.To(true)})
	if err != nil {
		e.t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// endpoint creates the ServiceEndpoint of a service with the targets.
func (e *environment) endpoint(namespace, name string, targets ...string) {
	e.t.Helper()
	list := []any{}
	for _, target := range targets {
		list = append(list, target)
	}
	e.createNamespace(namespace)
	e.apply(serviceEndpoints, map[string]any{
		"apiVersion": "kube-hyper-mini.io/v1alpha1", "kind": "ServiceEndpoint",
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": map[string]any{"targets": list},
	})
}

// waitReachable waits until the ServiceEndpoint reports the reachable targets,
// as "2/3".
func (e *environment) waitReachable(namespace, name, want string) {
	e.t.Helper()
	harness.Eventually(e.t, want+" targets can be reached", func() error {
		if out := e.Kubectl("", "get", "serviceendpoint", name, "-n", namespace); !strings.Contains(out, want) {
			return errors.New(out)
		}
		return nil
	})
}

// apiService registers group/v1alpha1 at a service; without a bundle TLS is
// not verified.
func (e *environment) apiService(group, namespace, name string, bundle []byte) {
	e.t.Helper()
	spec := map[string]any{
		"group": group, "version": "v1alpha1", "groupPriorityMinimum": 1000, "versionPriority": 15,
		"service": map[string]any{"namespace": namespace, "name": name},
	}
	if bundle == nil {
		spec["insecureSkipTLSVerify"] = true
	} else {
		spec["caBundle"] = base64.StdEncoding.EncodeToString(bundle)
	}
	e.apply(apiServices, map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1alpha1." + group}, "spec": spec,
	})
}

// available returns status, reason and message of the Available condition.
func (e *environment) available(group string) (status, reason, message string) {
	e.t.Helper()
	service, err := e.Dynamic().Resource(apiServices).Get(e.t.Context(), "v1alpha1."+group, metav1.GetOptions{})
	if err != nil {
		return "", "", err.Error()
	}
	conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
	for _, item := range conditions {
		condition, ok := item.(map[string]any)
		if ok && condition["type"] == "Available" {
			return fmt.Sprint(condition["status"]), fmt.Sprint(condition["reason"]), fmt.Sprint(condition["message"])
		}
	}
	return "", "", "no condition"
}

// waitAvailable waits for a status and reason of a group. For True it also
// waits until the group's resources are served: the aggregator sees the
// condition a moment later.
func (e *environment) waitAvailable(group, wantStatus, wantReason string) (message string) {
	e.t.Helper()
	harness.Eventually(e.t, fmt.Sprintf("%s has Available=%s (%s)", group, wantStatus, wantReason), func() error {
		var status, reason string
		status, reason, message = e.available(group)
		if status != wantStatus || reason != wantReason {
			return fmt.Errorf("it is %s (%s): %s", status, reason, message)
		}
		if status != "True" {
			return nil
		}
		_, err := e.Client().Discovery().ServerResourcesForGroupVersion(group + "/v1alpha1")
		return err
	})
	return message
}

// waitUnreachable waits until no target of the API server of a group accepts a connection.
func (e *environment) waitUnreachable(group string) (message string) {
	e.t.Helper()
	harness.Eventually(e.t, group+" cannot be reached", func() error {
		message = e.waitAvailable(group, "False", "FailedDiscoveryCheck")
		if !strings.Contains(message, "accepts a connection") {
			return errors.New(message)
		}
		return nil
	})
	return message
}

// as returns a client configuration that impersonates the user.
func (e *environment) as(user string, groups ...string) *rest.Config {
	config := e.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// gone waits until an object does not exist any more.
func (e *environment) gone(resource schema.GroupVersionResource, namespace, name string) {
	e.t.Helper()
	harness.Eventually(e.t, fmt.Sprintf("%s %s/%s is gone", resource.Resource, namespace, name), func() error {
		_, err := e.Dynamic().Resource(resource).Namespace(namespace).Get(e.t.Context(), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it is there")
	})
}
