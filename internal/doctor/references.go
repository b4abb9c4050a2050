package doctor

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"

	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
)

// references reports services without a ServiceEndpoint, and remote servers that fail.
func (s *server) references(ctx context.Context, add func(Finding)) error {
	known := map[string]bool{metav1.NamespaceDefault + "/kubernetes": true}
	if s.config != nil {
		for _, entry := range s.config.ServiceEndpoints {
			known[entry.Namespace+"/"+entry.Name] = true
		}
	}
	own := schema.GroupVersionResource{Group: endpoints.Group, Version: endpoints.Version, Resource: "serviceendpoints"}
	err := s.each(ctx, own, func(item *unstructured.Unstructured) { known[item.GetNamespace()+"/"+item.GetName()] = true })
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	for _, resource := range referring {
		err := s.each(ctx, resource, func(item *unstructured.Unstructured) {
			for _, service := range servicesOf(item) {
				if name := service.namespace + "/" + service.name; !known[name] {
					known[name] = true // reported once
					add(withoutEndpoint(item.GetKind()+" "+item.GetName(), service))
				}
			}
		})
		if err != nil {
			return err
		}
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

// service is what a `service:` reference names.
type service struct{ namespace, name string }

// referring are the types with references of admission and conversion webhooks.
var referring = []schema.GroupVersionResource{
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

// servicesOf returns the services that the webhooks of an object name.
func servicesOf(item *unstructured.Unstructured) (found []service) {
	hooks, _, _ := unstructured.NestedSlice(item.Object, "webhooks") // the server has validated them
	if conversion, found, _ := unstructured.NestedMap(item.Object, "spec", "conversion", "webhook"); found {
		hooks = append(hooks, conversion)
	}
	for _, hook := range hooks {
		content, _ := hook.(map[string]any)
		namespace, _, _ := unstructured.NestedString(content, "clientConfig", "service", "namespace")
		name, _, _ := unstructured.NestedString(content, "clientConfig", "service", "name")
		if name != "" {
			found = append(found, service{namespace, name})
		}
	}
	return found
}

func withoutEndpoint(object string, s service) Finding {
	return Finding{
		Severity: Risk, Object: object,
		Problem: fmt.Sprintf("it refers to service %s/%s, for which there is no ServiceEndpoint: "+
			"it works only if %s.%s.svc resolves",
			s.namespace, s.name, s.name, s.namespace),
		Remedy: fmt.Sprintf("apply a ServiceEndpoint with the address of its server, or delete the object:\n"+
			"apiVersion: %s/%s\nkind: ServiceEndpoint\nmetadata: {namespace: %s, name: %s}\nspec: {targets: "+
			"[\"https://HOST:PORT\"]}",
			endpoints.Group, endpoints.Version, s.namespace, s.name),
	}
}

// each calls f with each object of a type.
func (s *server) each(ctx context.Context, resource schema.GroupVersionResource,
	f func(*unstructured.Unstructured)) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return s.objects.Resource(resource).List(ctx, options)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{Limit: 100}, func(item runtime.Object) error {
		f(item.(*unstructured.Unstructured))
		return nil
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	return nil
}
