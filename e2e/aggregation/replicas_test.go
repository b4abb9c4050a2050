package aggregation

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// replica is one process of a webhook server.
type replica struct {
	*harness.Process
	name  string
	port  int
	files certificateFiles
}

func (w *webhooks) replica(t *testing.T, name string) *replica {
	t.Helper()
	r := &replica{name: name, port: harness.FreePort(t), files: newCertificateFiles(t, w.ca, hookHost)}
	r.launch(t, w)
	return r
}

func (r *replica) launch(t *testing.T, w *webhooks) {
	t.Helper()
	r.Process = start(t, hookBinary(t), "serve", "--listen", fmt.Sprintf("127.0.0.1:%d", r.port), "--name", r.name,
		"--tls-cert-file", r.files.certificate, "--tls-private-key-file", r.files.key)
	w.waitServing(r.port)
}

func admittedBy(names ...string) func(*corev1.ConfigMap) error {
	return func(created *corev1.ConfigMap) error {
		for _, name := range names {
			if created.Labels["admitted-by"] == name {
				return nil
			}
		}
		return fmt.Errorf("it was admitted by %q", created.Labels["admitted-by"])
	}
}

// TestWebhookReplicas moves, rotates and ends the servers behind a reference.
func TestWebhookReplicas(t *testing.T) {
	t.Parallel()
	w := &webhooks{environment: newEnvironment(t), ca: newAuthority(t)}
	one, two := w.replica(t, "one"), w.replica(t, "two")
	w.endpoint(hookNamespace, hookService, target(one.port))
	namespace := unique("replicas")
	w.createNamespace(namespace)
	w.mutate(mutating(namespace, w.client("/label"), rule("", "v1", "configmaps", admissionregistrationv1.Create)))
	w.waitAdmitted(namespace, harmless, admittedBy("one"))

	// The connection to the first is open, and no request may use it now.
	w.endpoint(hookNamespace, hookService, target(two.port))
	w.waitAdmitted(namespace, harmless, admittedBy("two"))
	for range 20 {
		created, err := tryConfigMap(t, w.Client(), namespace, harmless)
		if err != nil {
			t.Fatalf("after the move: %v", err)
		}
		if err := admittedBy("two")(created); err != nil {
			t.Errorf("after the move: %v", err)
		}
	}

	// A new certificate of the same CA, on new connections.
	two.files.renew(t, w.ca, hookHost)
	two.Stop(syscall.SIGTERM)
	two.launch(t, w)
	w.waitAdmitted(namespace, harmless, admittedBy("two"))

	// A certificate of another CA, and then its CA in the configuration.
	other := newAuthority(t)
	old := w.ca
	w.ca = other
	two.files.renew(t, other, hookHost)
	two.Stop(syscall.SIGTERM)
	two.launch(t, w)
	_ = w.waitDenied(namespace, harmless, "unknown authority")
	w.change(func(hook *admissionregistrationv1.MutatingWebhook) {
		hook.ClientConfig.CABundle = append(append([]byte{}, old.bundle...), other.bundle...)
	})
	w.waitAdmitted(namespace, harmless, admittedBy("two"))

	one.files.renew(t, other, hookHost) // read again for each connection
	for policy, signal := range map[admissionregistrationv1.FailurePolicyType]syscall.Signal{
		admissionregistrationv1.Fail: syscall.SIGKILL, admissionregistrationv1.Ignore: syscall.SIGTERM,
	} {
		w.change(func(hook *admissionregistrationv1.MutatingWebhook) { hook.FailurePolicy = &policy })
		t.Run(fmt.Sprintf("%s %s", policy, signal), func(t *testing.T) {
			bound := &webhooks{environment: w.environment.forTest(t), ca: other}
			bound.endpoint(hookNamespace, hookService, target(two.port))
			bound.waitAdmitted(namespace, harmless, admittedBy("two"))
			bound.endpoint(hookNamespace, hookService, target(two.port), target(one.port), target(harness.FreePort(t)))
			bound.waitReachable(hookNamespace, hookService, "2/3")
			endUnderLoad(t, bound, namespace, policy, func() { two.Stop(signal) })
		})
		two.launch(t, w) // the subtest would end it
	}
}

// change changes the webhook of this test.
func (w *webhooks) change(edit func(*admissionregistrationv1.MutatingWebhook)) {
	w.t.Helper()
	client := w.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	list, err := client.List(w.t.Context(), metav1.ListOptions{LabelSelector: "test=" + w.label()})
	if err != nil || len(list.Items) != 1 {
		w.t.Fatalf("find the configuration: %v", err)
	}
	configuration := &list.Items[0]
	edit(&configuration.Webhooks[0])
	if _, err := client.Update(w.t.Context(), configuration, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// endUnderLoad ends a replica while requests are made. With failurePolicy Fail
// the requests on its connections may fail, and no other; with Ignore none does.
func endUnderLoad(t *testing.T, w *webhooks, namespace string, policy admissionregistrationv1.FailurePolicyType, end func()) {
	maps := w.Client().CoreV1().ConfigMaps(namespace)
	allowed := maxFailures
	if policy == admissionregistrationv1.Ignore {
		allowed = 0
	}
	underLoad(t, allowed, end, func() error {
		_, err := maps.Create(background, configMap(harmless), metav1.CreateOptions{})
		return err
	})
	w.waitAdmitted(namespace, harmless, admittedBy("one"))
}

const loadClients = 4

// maxFailures is how many of their requests may fail when a server ends: those that were sent
// to it, and those that take one of its connections before they are known to be closed.
const maxFailures = 4 * loadClients

// underLoad has clients ask all the time, and calls end when they have done a
// third of it. So many may fail.
func underLoad(t *testing.T, allowed int, end func(), ask func() error) {
	t.Helper()
	const each = 60
	var begun atomic.Int64
	var mu sync.Mutex
	var failures []error
	var load sync.WaitGroup
	third := make(chan struct{})
	for range loadClients {
		load.Go(func() {
			for range each {
				if begun.Add(1) == loadClients*each/3 {
					close(third)
				}
				if err := ask(); err != nil {
					mu.Lock()
					failures = append(failures, err)
					mu.Unlock()
				}
			}
		})
	}
	<-third
	end()
	load.Wait()
	if len(failures) > allowed {
		t.Errorf("%d requests failed, at most %d may: %v", len(failures), allowed, errors.Join(failures...))
	}
}

// TestWebhookThatNeverAnswers has failurePolicy Ignore, so that requests pass
// when the server does not answer in time.
func TestWebhookThatNeverAnswers(t *testing.T) {
	t.Parallel()
	w := &webhooks{environment: newEnvironment(t), ca: newAuthority(t)}
	r := w.replica(t, "slow")
	w.endpoint(hookNamespace, hookService, target(r.port))
	namespace := unique("slow")
	w.createNamespace(namespace)
	slow := mutating(namespace, w.client("/slow"), rule("", "v1", "configmaps", admissionregistrationv1.Create))
	slow.TimeoutSeconds = ptr.To[int32](1)
	configuration := w.mutate(slow)
	_ = w.waitDenied(namespace, harmless, "failed calling webhook", "timeout=1s")
	configuration.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
	if _, err := w.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), configuration, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.waitAdmitted(namespace, harmless, func(*corev1.ConfigMap) error { return nil })
}
