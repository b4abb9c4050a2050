package aggregation

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// backends are an aggregated API server and a webhook of a test.
type backends struct {
	ca        *authority
	api, hook string
}

func newBackends(t *testing.T, group string) backends {
	t.Helper()
	b := backends{ca: newAuthority(t)}
	b.api = serve(t, b.ca.keyPair(t, "api.configured.svc"), discovery(group))
	w := &webhooks{environment: &environment{t: t}, ca: b.ca}
	b.hook = target(w.replica(t, "configured").port)
	return b
}

// refer registers both at their services, and waits until both answer.
func (b backends) refer(t *testing.T, e *environment, group string) (namespace string) {
	t.Helper()
	e.createNamespace("configured")
	e.apiService(group, "configured", "api", b.ca.bundle)
	e.waitAvailable(group, "True", "Passed")
	if _, err := e.Client().Discovery().ServerResourcesForGroupVersion(group + "/v1alpha1"); err != nil {
		t.Errorf("discovery through the aggregator: %v", err)
	}
	// Its type can be read only, and holds no namespace.
	doomed := unique("doomed")
	e.createNamespace(doomed)
	if err := e.Client().CoreV1().Namespaces().Delete(t.Context(), doomed, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.gone(namespaces, "", doomed)
	w := &webhooks{environment: e, ca: b.ca}
	namespace = unique("configured")
	e.createNamespace(namespace)
	w.mutate(mutating(namespace, w.client("/label"), rule("", "v1", "configmaps", admissionregistrationv1.Create)))
	w.waitAdmitted(namespace, harmless, admittedBy("configured"))
	return namespace
}

// TestConfiguredEndpoints has the endpoints in the configuration and no
// object, and starts with a webhook and an APIService in use.
func TestConfiguredEndpoints(t *testing.T) {
	t.Parallel()
	const group = "configured.example.com"
	b := newBackends(t, group)
	config := harness.ConfigFile(t, fmt.Sprintf("serviceEndpoints:\n- {namespace: configured, name: api, targets: [%q]}\n- {namespace: %s, name: %s, targets: [%q]}\n",
		b.api, hookNamespace, hookService, b.hook))
	first := newEnvironment(t, "--config", config)
	namespace := b.refer(t, first, group)
	if objects, err := first.Dynamic().Resource(serviceEndpoints).List(t.Context(), metav1.ListOptions{}); err != nil || len(objects.Items) > 0 {
		t.Errorf("there are ServiceEndpoints: %v, %v", objects, err)
	}
	if code := first.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}

	// What is ready serves them: there is nothing to wait for.
	second := &environment{harness.StartIn(t, first.Dir, "--config", config), t}
	created, err := tryConfigMap(t, second.Client(), namespace, harmless)
	if err != nil {
		t.Fatalf("the first write after a start: %v", err)
	}
	if err := admittedBy("configured")(created); err != nil {
		t.Error(err)
	}
	if _, err := second.Client().Discovery().ServerResourcesForGroupVersion(group + "/v1alpha1"); err != nil {
		t.Errorf("the aggregated server after a start: %v", err)
	}

	// An object has no precedence, and its status reports that.
	second.endpoint("configured", "api", target(harness.FreePort(t)))
	second.waitStatus("configured", "api", "the object is not used")
	if _, err := second.Client().Discovery().ServerResourcesForGroupVersion(group + "/v1alpha1"); err != nil {
		t.Errorf("the aggregated server with an object of its name: %v", err)
	}
}

// waitStatus waits until the message of a ServiceEndpoint's condition has a text,
// and returns the message.
func (e *environment) waitStatus(namespace, name, text string) (message string) {
	e.t.Helper()
	harness.Eventually(e.t, name+" has the status "+text, func() error {
		message = e.Kubectl("", "get", "serviceendpoint", name, "-n", namespace, "-o", "jsonpath={.status.reachable} {.status.conditions[0].message}")
		if !strings.Contains(message, text) {
			return errors.New(message)
		}
		return nil
	})
	return message
}

// TestServiceEndpointPolicy: authors of ServiceEndpoints do not learn which ports
// of denied addresses answer, and the server does not connect to them.
func TestServiceEndpointPolicy(t *testing.T) {
	t.Parallel()
	b := newBackends(t, "policy.example.com")
	config := harness.ConfigFile(t, `serviceEndpointPolicy: {deniedNetworks: [127.0.0.0/8, "::1"]}`+"\n")
	e := newEnvironment(t, "--config", config)
	open, closed := b.api, target(harness.FreePort(t))
	statuses := map[string][]string{}
	for name, url := range map[string]string{"open": open, "closed": closed} {
		literal, resolved := url, strings.Replace(url, "127.0.0.1", "localhost", 1)
		e.endpoint("policy", name, literal)
		e.endpoint("policy", name+"-name", resolved)
		for kind, object := range map[string]string{literal: name, resolved: name + "-name"} {
			message := e.waitStatus("policy", object, "0/1 ")
			statuses[kind[:len("https://127")]] = append(statuses[kind[:len("https://127")]], strings.ReplaceAll(message, strings.TrimPrefix(kind, "https://"), "TARGET"))
		}
	}
	for kind, messages := range statuses {
		if len(messages) != 2 || messages[0] != messages[1] {
			t.Errorf("%s: the status tells an open port from a closed one: %q", kind, messages)
		}
	}
	e.WaitLog("a ServiceEndpoint has a target that is not allowed")
	e.apiService("policy.example.com", "policy", "open", b.ca.bundle)
	e.waitUnreachable("policy.example.com")
}

// TestEgress has all connections to other servers go through a proxy, to the
// targets and not to the names of services.
func TestEgress(t *testing.T) {
	t.Parallel()
	const group = "configured.example.com"
	b := newBackends(t, group)
	proxy := newConnectProxy(t)
	selector := filepath.Join(t.TempDir(), "egress.yaml")
	harness.WriteFile(t, selector, `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: `+proxy.socket+`}}}
`)
	e := newEnvironment(t, "--config", harness.ConfigFile(t, "apiServer: {flags: {egress-selector-config-file: "+selector+"}}\n"))
	e.endpoint("configured", "api", b.api)
	e.endpoint(hookNamespace, hookService, b.hook)
	b.refer(t, e, group)
	for _, backend := range []string{b.api, b.hook} {
		if address := strings.TrimPrefix(backend, "https://"); !slices.Contains(proxy.addresses(), address) {
			t.Errorf("the proxy has connected to %v, not to %s", proxy.addresses(), address)
		}
	}
}

// connectProxy is an HTTP CONNECT proxy on a unix socket.
type connectProxy struct {
	socket string
	mu     sync.Mutex
	asked  []string
}

func newConnectProxy(t *testing.T) *connectProxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "egress-") // a test's own is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	p := &connectProxy{socket: filepath.Join(dir, "s")}
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go p.serve(connection)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // ends the loop
		serving.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *connectProxy) addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// serve connects both sides until one of them closes.
func (p *connectProxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }() // the other side has closed it
	reader := bufio.NewReader(client)
	request, err := http.ReadRequest(reader)
	if err != nil || request.Method != http.MethodConnect {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, request.Host)
	p.mu.Unlock()
	server, err := net.Dial("tcp", request.Host)
	if err != nil {
		_, _ = io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\n\r\n") // it sees that nothing comes
		return
	}
	defer func() { _ = server.Close() }() // as above
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, reader) // ends with either connection
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server) // as above
}
