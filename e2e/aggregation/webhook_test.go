package aggregation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const (
	hookNamespace = "webhooks"
	hookService   = "hook"
	hookHost      = hookService + "." + hookNamespace + ".svc"
)

// background is for what is done after a test's own context has ended.
var background = context.Background()

// webhooks is a webhook server behind service webhooks/hook.
type webhooks struct {
	*environment
	ca *authority
}

// newWebhooks runs agnhost's webhook.
func newWebhooks(t *testing.T) *webhooks {
	t.Helper()
	w := &webhooks{environment: newEnvironment(t), ca: newAuthority(t)}
	port := harness.FreePort(t)
	files := newCertificateFiles(t, w.ca, hookHost)
	start(t, hookBinary(t), "webhook", "--tls-cert-file", files.certificate, "--tls-private-key-file", files.key, "--port", fmt.Sprint(port))
	w.waitServing(port)
	w.endpoint(hookNamespace, hookService, target(port))
	return w
}

// forTest is the same for a subtest, with a namespace of its own.
func (w *webhooks) forTest(t *testing.T) (bound *webhooks, namespace string) {
	t.Helper()
	bound = &webhooks{environment: w.environment.forTest(t), ca: w.ca}
	namespace = unique("admitted")
	bound.createNamespace(namespace)
	return bound, namespace
}

// start runs a program that is not the product.
func start(t testing.TB, program string, args ...string) *harness.Process {
	t.Helper()
	return harness.StartProcess(t, exec.Command(program, args...))
}

func hookBinary(t testing.TB) string {
	t.Helper()
	return harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "./aggregation/webhookserver", "webhookserver")
}

// waitServing waits until a server speaks TLS with the right certificate.
func (w *webhooks) waitServing(port int) {
	w.t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(w.ca.Certificate)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: hookHost}, DisableKeepAlives: true}}
	harness.Eventually(w.t, "the webhook server answers", func() error {
		response, err := client.Get(target(port) + "/readyz")
		if err == nil {
			err = response.Body.Close()
		}
		return err
	})
}

func (w *webhooks) client(path string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		Service:  &admissionregistrationv1.ServiceReference{Namespace: hookNamespace, Name: hookService, Path: &path},
		CABundle: w.ca.bundle,
	}
}

func rule(group, version, resource string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
	if len(operations) == 0 {
		operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete}
	}
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: operations,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
	}}
}

// within restricts a webhook to a namespace.
func within(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

func validating(namespace string, client admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: unique("validating") + ".example.com", ClientConfig: client, Rules: rules, NamespaceSelector: within(namespace),
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1", "v1beta1"},
	}
}

func mutating(namespace string, client admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name: unique("mutating") + ".example.com", ClientConfig: client, Rules: rules, NamespaceSelector: within(namespace),
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1", "v1beta1"},
	}
}

// validate registers webhooks until the test ends.
func (w *webhooks) validate(hooks ...admissionregistrationv1.ValidatingWebhook) *admissionregistrationv1.ValidatingWebhookConfiguration {
	w.t.Helper()
	client := w.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	created, err := client.Create(w.t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: unique("test"), Labels: map[string]string{"test": w.label()}}, Webhooks: hooks,
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("register validating webhooks: %v", err)
	}
	w.t.Cleanup(func() {
		w.remove(func(o metav1.DeleteOptions) error { return client.Delete(background, created.Name, o) })
	})
	return created
}

// mutate registers webhooks until the test ends.
func (w *webhooks) mutate(hooks ...admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.MutatingWebhookConfiguration {
	w.t.Helper()
	client := w.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	created, err := client.Create(w.t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: unique("test"), Labels: map[string]string{"test": w.label()}}, Webhooks: hooks,
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("register mutating webhooks: %v", err)
	}
	w.t.Cleanup(func() {
		w.remove(func(o metav1.DeleteOptions) error { return client.Delete(background, created.Name, o) })
	})
	return created
}

// label tells the configurations of this test, as a label's value.
func (w *webhooks) label() string { return filepath.Base(w.t.Name()) }

func (w *webhooks) remove(remove func(metav1.DeleteOptions) error) {
	if !w.Running() {
		return // with all that it had
	}
	if err := remove(metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.t.Errorf("remove a webhook configuration: %v", err)
	}
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: unique("map")}, Data: data}
}

// tryConfigMap creates a config map and, if that succeeds, deletes it.
func tryConfigMap(t testing.TB, client kubernetes.Interface, namespace string, data map[string]string) (*corev1.ConfigMap, error) {
	t.Helper()
	maps := client.CoreV1().ConfigMaps(namespace)
	created, err := maps.Create(t.Context(), configMap(data), metav1.CreateOptions{})
	if err == nil {
		_ = maps.Delete(t.Context(), created.Name, metav1.DeleteOptions{}) // the namespace is the test's own
	}
	return created, err
}

// waitDenied waits until a webhook's configuration has been seen and denies
// with an error that has all the parts, which is returned.
func (w *webhooks) waitDenied(namespace string, data map[string]string, parts ...string) error {
	w.t.Helper()
	var denied error
	harness.Eventually(w.t, fmt.Sprintf("the webhook denies with %q", parts), func() error {
		if _, denied = tryConfigMap(w.t, w.Client(), namespace, data); denied == nil {
			return errors.New("it was admitted")
		}
		for _, part := range parts {
			if !strings.Contains(denied.Error(), part) {
				return denied
			}
		}
		return nil
	})
	return denied
}

// waitAdmitted waits until nothing denies any more, and returns what was made
// of the object.
func (w *webhooks) waitAdmitted(namespace string, data map[string]string, want func(*corev1.ConfigMap) error) {
	w.t.Helper()
	harness.Eventually(w.t, "the object is admitted as wanted", func() error {
		created, err := tryConfigMap(w.t, w.Client(), namespace, data)
		if err != nil {
			return err
		}
		return want(created)
	})
}
