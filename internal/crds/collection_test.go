package crds

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// TestDeleteCollection: the deletion of a collection answers with the deleted CRDs, as
// upstream's does.
func TestDeleteCollection(t *testing.T) {
	third := labels.SelectorFromSet(labels.Set{"third": "yes"})
	for _, test := range []struct {
		name    string
		options metav1.DeleteOptions
		list    metainternalversion.ListOptions
		left    int
	}{
		{"all", metav1.DeleteOptions{}, metainternalversion.ListOptions{}, 0},
		{"labelled", metav1.DeleteOptions{}, metainternalversion.ListOptions{LabelSelector: third}, manyDefinitions - (manyDefinitions+2)/3},
		{"a page", metav1.DeleteOptions{}, metainternalversion.ListOptions{Limit: 7}, manyDefinitions - 7},
		{"dry run", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metainternalversion.ListOptions{}, manyDefinitions},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newTestServer(t)
			for i := range manyDefinitions {
				s.createDefinition(t, i)
			}
			whole := context.WithValue(definitionContext(t), readKey{}, readWhole)
			before, err := s.registry.REST.List(whole, &test.list)
			if err != nil {
				t.Fatal(err)
			}
			deleted, err := s.registry.DeleteCollection(whole, rest.ValidateAllObjectFunc, &test.options, &test.list)
			if err != nil {
				t.Fatal(err)
			}
			encoder := encoders(t)[runtime.ContentTypeJSON]
			if got, want := encoded(t, encoder, deleted), encoded(t, encoder, before); got != want {
				t.Errorf("the response is\n%.400q\nwant\n%.400q", got, want)
			}
			if list, ok := deleted.(*storedDefinitionList); ok && list.Items[0].codec.encodings.size > 0 {
				t.Error("the encodings of deleted CRDs are kept")
			}
			left, err := s.registry.REST.List(whole, &metainternalversion.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if count := apimeta.LenList(left); count != test.left {
				t.Errorf("%d CRDs are left, want %d", count, test.left)
			}
		})
	}
}

// TestDeleteCollectionThatFails: the first error is that of the request, and no more CRDs
// are deleted.
func TestDeleteCollectionThatFails(t *testing.T) {
	s := newTestServer(t)
	for i := range manyDefinitions {
		s.createDefinition(t, i)
	}
	whole := context.WithValue(definitionContext(t), readKey{}, readWhole)
	refused := errors.New("not this one")
	refuse := func(_ context.Context, obj runtime.Object) error { return refused }
	if _, err := s.registry.DeleteCollection(whole, refuse, &metav1.DeleteOptions{}, nil); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if _, err := s.registry.Get(whole, fmt.Sprintf("widgets.group%03d.example.com", manyDefinitions-1), &metav1.GetOptions{}); err != nil {
		t.Errorf("a CRD was deleted: %v", err)
	}
	gone, cancel := context.WithCancel(whole)
	cancel()
	if _, err := s.registry.DeleteCollection(gone, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, nil); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("after the end of the request: %v", err)
	}
}
