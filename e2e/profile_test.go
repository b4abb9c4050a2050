package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const kubernetesProfile = "apis: {profile: kubernetes}\n"

// TestKubernetesProfile: the types of kube-apiserver are validated, defaulted,
// stored and deleted, and nothing runs them.
func TestKubernetesProfile(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, kubernetesProfile+
		"apiServer:\n  flags: {service-cluster-ip-range: 10.7.0.0/24, service-node-port-range: 31000-31009}\n"))
	if log := s.Log(); strings.Contains(log, " ERROR ") {
		t.Errorf("the start logged an error:\n%s", log)
	}
	for name, test := range map[string]func(*testing.T, *harness.Server, string){
		"workloads":          workloadsAreData,
		"services":           servicesHaveAddresses,
		"kubelet requests":   kubeletRequestsAreRefused,
		"quota":              quotaCountsPods,
		"garbage collection": dependentsOfWorkloadsGo,
		"admission":          admissionOfPods,
		"namespace deletion": namespaceWithWorkloadsGoes,
		"charts":             chartsInstall,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := s.For(t)
			test(t, server, namespace(t, server))
		})
	}
}

// chartsInstall: helm installs a chart with a Deployment and a Service, and a webhook that
// names the Service gets requests where the ServiceEndpoint says.
func chartsInstall(t *testing.T, s *harness.Server, ns string) {
	// Its webhook gets requests of the whole server: no other test here has widgets.
	s.Kubectl("", "apply", "-f", filepath.Join(harness.Root(t), "config", "examples", "widgets.yaml"))
	out, err := harness.Run(t, "", helmBinary(t), "install", "widgets", filepath.Join(harness.Root(t), "config", "examples", "chart"), "--namespace", ns, "--kubeconfig", s.Kubeconfig)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	harness.Contains(t, out, "STATUS: deployed")
	harness.Contains(t, s.Kubectl("", "get", "all", "-n", ns), "deployment.apps/widgets", "service/widgets-webhook")
	address := harness.FreeAddress(t)
	s.Kubectl(fmt.Sprintf("apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServiceEndpoint\nmetadata: {name: widgets-webhook}\nspec: {targets: [\"https://%s\"]}\n", address), "create", "-n", ns, "-f", "-")
	harness.Eventually(t, "the webhook is asked at "+address, func() error {
		out, err := s.TryKubectl("", "create", "-n", ns, "-f", filepath.Join(harness.Root(t), "config", "examples", "widget.yaml"), "--dry-run=server")
		if err != nil && strings.Contains(out, "failed calling webhook") && strings.Contains(out, address) {
			return nil
		}
		return fmt.Errorf("%w: %s", errors.Join(err, errors.New("it was not")), out)
	})
	harness.Contains(t, s.Kubectl("", "cluster-info"), "Kubernetes control plane", "is running at", s.RESTConfig().Host)
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "kubectl", "--data-dir", s.Dir, "cluster-info", "dump"), "NodeList", "PodList")
}

func workloadsAreData(t *testing.T, s *harness.Server, ns string) {
	s.Kubectl("", "create", "deployment", "web", "-n", ns, "--image=nginx", "--replicas=2")
	if got := s.Kubectl("", "get", "deployment", "web", "-n", ns, "-o", "jsonpath={.spec.strategy.type} {.spec.template.spec.restartPolicy}"); got != "RollingUpdate Always" {
		t.Errorf("the defaults are %q", got)
	}
	refused(t, s, "", []string{"patch", "deployment", "web", "-n", ns, "--type=merge", "-p", `{"spec":{"replicas":-1}}`}, "greater than or equal to 0")
	s.Kubectl("", "run", "one", "-n", ns, "--image=nginx")
	if got := s.Kubectl("", "get", "pods", "-n", ns, "-o", "jsonpath={range .items[*]}{.metadata.name} {.status.phase};{end}"); got != "one Pending;" {
		t.Errorf("the pods are %q, want one that is Pending and none of the deployment", got)
	}
	harness.Contains(t, s.Kubectl("", "explain", "cronjobs.spec.schedule"), "Cron format")
	harness.Contains(t, s.Kubectl("", "get", "priorityclasses"), "system-node-critical", "system-cluster-critical")
	for _, kind := range []string{"nodes", "persistentvolumes", "ingresses", "jobs", "horizontalpodautoscalers", "poddisruptionbudgets", "resourceclaims", "storageclasses"} {
		s.Kubectl("", "get", kind, "-A")
	}
}

func servicesHaveAddresses(t *testing.T, s *harness.Server, ns string) {
	services := s.Client().CoreV1().Services(ns)
	create := func(name string, spec corev1.ServiceSpec) (*corev1.Service, error) {
		spec.Ports = []corev1.ServicePort{{Port: 80}}
		return services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	}
	first, err := create("first", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort})
	if err != nil {
		t.Fatal(err)
	}
	if ip, err := netip.ParseAddr(first.Spec.ClusterIP); err != nil || !netip.MustParsePrefix("10.7.0.0/24").Contains(ip) {
		t.Errorf("the cluster IP is %q", first.Spec.ClusterIP)
	}
	if port := first.Spec.Ports[0].NodePort; port < 31000 || port > 31009 {
		t.Errorf("the node port is %d", port)
	}
	again := corev1.ServiceSpec{ClusterIP: first.Spec.ClusterIP}
	if _, err := create("second", again); err == nil || !strings.Contains(err.Error(), "already allocated") {
		t.Errorf("the cluster IP of another service was not refused: %v", err)
	}
	if err := services.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the cluster IP is free again", func() error { _, err := create("second", again); return err })
	if _, err := create("outside", corev1.ServiceSpec{ClusterIP: "10.8.0.1"}); err == nil || !strings.Contains(err.Error(), "does not match the current range") {
		t.Errorf("a cluster IP outside of the range was not refused: %v", err)
	}
	harness.Eventually(t, "the service of the API server is there", func() error {
		service, err := s.Client().CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err == nil && service.Spec.ClusterIP != "10.7.0.1" {
			return fmt.Errorf("its cluster IP is %s", service.Spec.ClusterIP)
		}
		return err
	})
	serverHasEndpoints(t, s)
}

// serverHasEndpoints: those of the Service of the API server have the address of the
// host's default interface, as with kube-apiserver on loopback.
func serverHasEndpoints(t *testing.T, s *harness.Server) {
	t.Helper()
	address, err := utilnet.ResolveBindAddress(net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Logf("this host has no default interface: no endpoints are expected: %v", err)
		return
	}
	server, err := url.Parse(s.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	want := address.String() + ":" + server.Port()
	harness.Eventually(t, "the endpoints of the API server are there", func() error {
		endpoints, err := s.Client().CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		slice, err := s.Client().DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(endpoints.Subsets) != 1 || len(slice.Endpoints) != 1 || len(slice.Ports) != 1 {
			return fmt.Errorf("there are %v and %v", endpoints.Subsets, slice)
		}
		subset := endpoints.Subsets[0]
		for _, got := range []string{
			fmt.Sprintf("%s:%d", subset.Addresses[0].IP, subset.Ports[0].Port), fmt.Sprintf("%s:%d", slice.Endpoints[0].Addresses[0], *slice.Ports[0].Port),
		} {
			if got != want {
				return fmt.Errorf("they are %s, want %s", got, want)
			}
		}
		return nil
	})
}

func kubeletRequestsAreRefused(t *testing.T, s *harness.Server, ns string) {
	const why = "stores pods as data, and nothing runs them"
	s.Kubectl("", "run", "one", "-n", ns, "--image=nginx")
	for _, args := range [][]string{{"logs", "one"}, {"exec", "one", "--", "ls"}, {"attach", "one"}, {"port-forward", "one", "0:80"},
		{"get", "--raw", "/api/v1/namespaces/" + ns + "/pods/one/proxy/"}} {
		if args[0] != "get" {
			args = append([]string{args[0], "-n", ns}, args[1:]...)
		}
		if out, err := s.TryKubectl("", args...); err == nil || !strings.Contains(out, why) && args[0] != "attach" && args[0] != "port-forward" {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	for _, subresource := range []string{"attach", "portforward"} {
		err := s.Client().CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name("one").SubResource(subresource).Do(t.Context()).Error()
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", subresource, err)
		}
	}
}

func quotaCountsPods(t *testing.T, s *harness.Server, ns string) {
	s.Kubectl("", "create", "quota", "q", "-n", ns, "--hard=requests.cpu=1,pods=2,count/deployments.apps=1,services=1")
	used := func(want string) {
		t.Helper()
		harness.Eventually(t, "the quota says "+want, func() error {
			if got := s.Kubectl("", "get", "quota", "q", "-n", ns, "-o", "jsonpath={.status.used.pods} {.status.used.requests\\.cpu} {.status.used.count/deployments\\.apps}"); got != want {
				return errors.New(got)
			}
			return nil
		})
	}
	used("0 0 0")
	pod := func(name, cpu string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: %s}}}]}\n", name, cpu)
	}
	create := []string{"create", "-n", ns, "-f", "-"}
	s.Kubectl(pod("one", "600m"), create...)
	used("1 600m 0")
	refused(t, s, pod("two", "600m"), create, "exceeded quota: q", "requests.cpu=600m")
	s.Kubectl("", "create", "deployment", "web", "-n", ns, "--image=nginx")
	used("1 600m 1")
	refused(t, s, "", []string{"create", "deployment", "more", "-n", ns, "--image=nginx"}, "exceeded quota: q")
	s.Kubectl("", "delete", "pod", "one", "-n", ns)
	used("0 0 1")
	s.Kubectl(pod("two", "600m"), create...)
}

func dependentsOfWorkloadsGo(t *testing.T, s *harness.Server, ns string) {
	s.Kubectl("", "create", "deployment", "web", "-n", ns, "--image=nginx")
	uid := s.Kubectl("", "get", "deployment", "web", "-n", ns, "-o", "jsonpath={.metadata.uid}")
	s.Kubectl(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: owned
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: %s}]
spec: {containers: [{name: c, image: nginx}]}
`, uid), "create", "-n", ns, "-f", "-")
	s.Kubectl("", "delete", "deployment", "web", "-n", ns)
	s.Await("delete", "pod/owned", "-n", ns)
}

func admissionOfPods(t *testing.T, s *harness.Server, ns string) {
	s.Kubectl("apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 10m}, max: {cpu: 20m}, default: {cpu: 20m}}]}\n", "create", "-n", ns, "-f", "-")
	harness.Eventually(t, "the limit range gives its default", func() error {
		s.Kubectl("", "delete", "pod", "one", "-n", ns, "--ignore-not-found")
		s.Kubectl("", "run", "one", "-n", ns, "--image=nginx")
		if got := s.Kubectl("", "get", "pod", "one", "-n", ns, "-o", "jsonpath={.spec.containers[0].resources.requests.cpu} {.spec.serviceAccountName} {.spec.priority}"); got != "10m default 0" {
			return errors.New(got)
		}
		return nil
	})
	s.Kubectl("", "label", "namespace", ns, "pod-security.kubernetes.io/enforce=restricted")
	harness.Eventually(t, "pod security refuses", func() error {
		out, err := s.TryKubectl("", "run", "two", "-n", ns, "--image=nginx", "--dry-run=server")
		if err == nil || !strings.Contains(out, "violates PodSecurity") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func namespaceWithWorkloadsGoes(t *testing.T, s *harness.Server, ns string) {
	own := ns + "-own"
	s.Kubectl("", "create", "namespace", own)
	s.Kubectl("", "create", "deployment", "web", "-n", own, "--image=nginx")
	s.Kubectl("", "create", "service", "clusterip", "web", "-n", own, "--tcp=80")
	s.Kubectl("", "create", "job", "once", "-n", own, "--image=busybox")
	s.Kubectl("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n", "create", "-n", own, "-f", "-")
	s.Kubectl("", "run", "one", "-n", own, "--image=nginx")
	s.Kubectl("", "delete", "namespace", own)
	for _, kind := range []string{"deployments", "services", "jobs", "persistentvolumeclaims", "pods"} {
		if left := s.Kubectl("", "get", kind, "-A", "-o", "jsonpath={.items[*].metadata.namespace}"); strings.Contains(left, own) {
			t.Errorf("%s are left in %s", kind, own)
		}
	}
}

// TestStoreOfAnotherProfile: a store with objects that the generic profile does not
// serve is refused, with their names, and taken again when they are gone.
func TestStoreOfAnotherProfile(t *testing.T) {
	t.Parallel()
	dir, config := filepath.Join(t.TempDir(), "data"), harness.ConfigFile(t, kubernetesProfile)
	s := harness.StartIn(t, dir, "--config", config)
	s.Kubectl("", "create", "deployment", "web", "--image=nginx")
	s.Kubectl("", "create", "configmap", "kept", "--from-literal=a=b")
	s.Stop()
	out := harness.Runs(t, harness.ExitUsage, "server", "--data-dir", dir, "--port", "0")
	harness.Contains(t, out, "apis.profile: generic does not serve what is stored: 1 deployments.apps (default/web)", "set it to kubernetes")
	s = harness.StartIn(t, dir, "--config", config)
	s.Kubectl("", "delete", "deployment", "web")
	s.Stop()
	s = harness.StartIn(t, dir)
	s.Kubectl("", "get", "configmap", "kept")
	if out, err := s.TryKubectl("", "get", "deployments"); err == nil {
		t.Errorf("deployments are served:\n%s", out)
	}
}
