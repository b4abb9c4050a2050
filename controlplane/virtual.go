package controlplane

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	clientrest "k8s.io/client-go/rest"
)

// virtual is a read-only resource whose objects a function returns. It has get and list.
type virtual[Spec, Status any] struct {
	apiResourceNames
	client *clientrest.Config
	list   func(ctx context.Context, client *clientrest.Config, namespace string) ([]Object[Spec, Status], error)
}

// New implements [rest.Storage].
func (v *virtual[Spec, Status]) New() runtime.Object { return v.resource.New() }

// NewList implements [rest.Lister].
func (v *virtual[Spec, Status]) NewList() runtime.Object { return v.resource.NewList() }

// Destroy implements [rest.Storage].
func (v *virtual[Spec, Status]) Destroy() {}

// NamespaceScoped implements [rest.Scoper].
func (v *virtual[Spec, Status]) NamespaceScoped() bool { return !v.resource.ClusterScoped }

// List implements [rest.Lister]. Label selectors select, other selectors are refused.
func (v *virtual[Spec, Status]) List(ctx context.Context,
	options *internalversion.ListOptions) (runtime.Object, error) {
	selector := labels.Everything()
	if options != nil && options.LabelSelector != nil {
		selector = options.LabelSelector
	}
	if options != nil && options.FieldSelector != nil && !options.FieldSelector.Empty() {
		return nil, apierrors.NewBadRequest("field selectors are not supported for " + v.resource.groupResource().String())
	}
	objects, err := v.list(ctx, v.client, request.NamespaceValue(ctx))
	if err != nil {
		return nil, err
	}
	list := &List[Spec, Status]{Items: []Object[Spec, Status]{}}
	for _, object := range objects {
		if selector.Matches(labels.Set(object.Labels)) {
			object.SetGroupVersionKind(schema.GroupVersionKind{}) // the encoder sets it
			list.Items = append(list.Items, object)
		}
	}
	return list, nil
}

// Get implements [rest.Getter].
func (v *virtual[Spec, Status]) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	objects, err := v.list(ctx, v.client, request.NamespaceValue(ctx))
	if err != nil {
		return nil, err
	}
	for i := range objects {
		if objects[i].Name == name {
			object := objects[i] // the program may keep the list, and the encoder sets the kind
			return &object, nil
		}
	}
	return nil, apierrors.NewNotFound(v.resource.groupResource(), name)
}

// storage returns the function for Resource.Storage.
func (k Kind[Spec, Status]) storage(r *Resource) func(StorageEnvironment) (rest.Storage, error) {
	return func(environment StorageEnvironment) (rest.Storage, error) {
		return &virtual[Spec, Status]{apiResourceNames{r}, environment.Client, k.List}, nil
	}
}
