package doctor

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
)

// dialTimeout bounds a connection to a target.
const dialTimeout = 3 * time.Second

// configuredTargets reports targets of the configuration that do not answer. The server
// does not probe them.
func (d *directory) configuredTargets(ctx context.Context, add func(Finding)) error {
	for i, entry := range d.config.ServiceEndpoints {
		for _, target := range entry.Targets {
			address, err := config.TargetAddress(target)
			if err == nil {
				err = dial(ctx, address)
			}
			if err != nil {
				add(Finding{Severity: Failure, Object: fmt.Sprintf("serviceEndpoints[%d] %s/%s", i, entry.Namespace, entry.Name), Problem: fmt.Sprintf("%s cannot be reached: %v", target, err),
					Remedy: "start the server there, or correct the target in the configuration and restart"})
			}
		}
	}
	return ctx.Err()
}

// externalEtcd reports endpoints of the external etcd that do not answer.
func (d *directory) externalEtcd(ctx context.Context, add func(Finding)) error {
	external := d.config.External
	all := external.Endpoints
	var failed []string
	for _, endpoint := range all {
		if err := etcd.Probe(ctx, etcd.External{CAFile: external.CAFile, CertFile: external.CertFile, KeyFile: external.KeyFile}, endpoint); err != nil {
			failed = append(failed, fmt.Sprintf("%s (%v)", endpoint, err))
		}
	}
	if len(failed) == 0 {
		return ctx.Err()
	}
	f := Finding{Severity: Risk, Object: "etcd.external.endpoints", Problem: "these cannot be reached: " + strings.Join(failed, ", "), Remedy: "start etcd there, or correct etcd.external in the configuration and restart"}
	if len(failed) == len(all) {
		f.Severity = Failure
	}
	add(f)
	return ctx.Err()
}

func dial(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return endpoints.WithoutSource(err)
	}
	return connection.Close()
}

// reference is a `service:` reference and the object that has it.
type reference struct{ object, namespace, name string }

// references reports services without a ServiceEndpoint, and remote servers that fail.
func (s *server) references(ctx context.Context, add func(Finding)) error {
	known, err := s.serviceEndpoints(ctx)
	if err != nil {
		return err
	}
	if s.config != nil {
		for _, entry := range s.config.ServiceEndpoints {
			known[entry.Namespace+"/"+entry.Name] = true
		}
	}
	used, err := s.webhookServices(ctx)
	if err != nil {
		return err
	}
	for _, r := range used {
		service := r.namespace + "/" + r.name
		if known[service] || service == metav1.NamespaceDefault+"/kubernetes" {
			continue
		}
		manifest := fmt.Sprintf("apiVersion: %s/%s\nkind: ServiceEndpoint\nmetadata: {namespace: %s, name: %s}\nspec: {targets: [\"https://HOST:PORT\"]}", endpoints.Group, endpoints.Version, r.namespace, r.name)
		add(Finding{
			Severity: Risk, Object: r.object, Problem: fmt.Sprintf("it refers to service %s, for which there is no ServiceEndpoint: it works only if %s.%s.svc resolves", service, r.name, r.namespace),
			Remedy: "apply a ServiceEndpoint with the address of its server, or delete the object:\n" + manifest,
		})
	}
	if s.status == nil || s.status.Remote == nil {
		return nil
	}
	for _, failing := range s.status.Remote.Failing {
		add(Finding{
			Severity: Failure, Object: failing.String(), Problem: failing.Reason,
			Remedy: "start its server, correct the targets of the ServiceEndpoint, or delete the object",
		})
	}
	return nil
}

// serviceEndpoints returns the ServiceEndpoint objects as NAMESPACE/NAME.
func (s *server) serviceEndpoints(ctx context.Context) (map[string]bool, error) {
	known := map[string]bool{}
	result := s.client.Discovery().RESTClient().Get().AbsPath("/apis", endpoints.Group, endpoints.Version, "serviceendpoints").Do(ctx)
	if err := result.Error(); apierrors.IsNotFound(err) {
		return known, nil
	} else if err != nil {
		return nil, fmt.Errorf("list ServiceEndpoints: %w", err)
	}
	data, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("read ServiceEndpoints: %w", err)
	}
	list := &unstructured.UnstructuredList{}
	if err := list.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("read ServiceEndpoints: %w", err)
	}
	for _, item := range list.Items {
		known[item.GetNamespace()+"/"+item.GetName()] = true
	}
	return known, nil
}

// webhookServices returns the services of admission and conversion webhooks.
func (s *server) webhookServices(ctx context.Context) ([]reference, error) {
	var list []reference
	webhook := func(kind, name string, client admissionregistrationv1.WebhookClientConfig) {
		if client.Service != nil {
			list = append(list, reference{kind + " " + name, client.Service.Namespace, client.Service.Name})
		}
	}
	validating, err := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	for _, configuration := range validating.Items {
		for _, entry := range configuration.Webhooks {
			webhook("ValidatingWebhookConfiguration", configuration.Name, entry.ClientConfig)
		}
	}
	mutating, err := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list webhooks: %w", err)
	}
	for _, configuration := range mutating.Items {
		for _, entry := range configuration.Webhooks {
			webhook("MutatingWebhookConfiguration", configuration.Name, entry.ClientConfig)
		}
	}
	err = s.definitions(ctx, func(crd *apiextensionsv1.CustomResourceDefinition) {
		conversion := crd.Spec.Conversion
		if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil || conversion.Webhook.ClientConfig.Service == nil {
			return
		}
		service := conversion.Webhook.ClientConfig.Service
		list = append(list, reference{"CustomResourceDefinition " + crd.Name, service.Namespace, service.Name})
	})
	if err != nil {
		return nil, err
	}
	return unique(list), nil
}

// unique removes duplicates: several webhooks of one object may refer to one service.
func unique(list []reference) []reference {
	seen := map[reference]bool{}
	kept := list[:0]
	for _, r := range list {
		if !seen[r] {
			seen[r] = true
			kept = append(kept, r)
		}
	}
	return kept
}

// pageSize bounds how many CRDs are read at once.
const pageSize = 100

// definitions calls f with each CustomResourceDefinition.
func (s *server) definitions(ctx context.Context, f func(*apiextensionsv1.CustomResourceDefinition)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := s.extensions.ApiextensionsV1().CustomResourceDefinitions().List(ctx, options)
		if err != nil {
			return fmt.Errorf("list CustomResourceDefinitions: %w", err)
		}
		for i := range page.Items {
			f(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}
