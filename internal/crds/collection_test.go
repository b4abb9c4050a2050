package crds

import (
	"context"
	"testing"

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

// TestDeleteCollectionCompacted: the deletion of a collection goes on when etcd is compacted.
func TestDeleteCollectionCompacted(t *testing.T) {
	unlabelled, err := labels.Parse("third!=yes")
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]metainternalversion.ListOptions{"all": {}, "unlabelled": {LabelSelector: unlabelled}} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t)
			for i := range manyDefinitions {
				s.createDefinition(t, i)
			}
			seen := map[string]bool{}
			compact := func(ctx context.Context, obj runtime.Object) error {
				accessor, err := apimeta.Accessor(obj)
				if err != nil {
					return err
				}
				seen[accessor.GetName()] = true
				if n := len(seen); n == 2 || n == listPage+2 { // after a deletion of each page
					current, err := s.etcd.Get(ctx, "/")
					if err != nil {
						return err
					}
					_, err = s.etcd.Compact(ctx, current.Header.Revision)
					return err
				}
				return nil
			}
			whole := context.WithValue(definitionContext(t), readKey{}, readWhole)
			if deleted, err := s.registry.DeleteCollection(whole, compact, &metav1.DeleteOptions{}, &list); err != nil || deleted != nil {
				t.Errorf("%v; the response is %T, want none", err, deleted)
			}
			left, err := s.registry.REST.List(whole, &list)
			if err != nil {
				t.Fatal(err)
			}
			if count := apimeta.LenList(left); count != 0 {
				t.Errorf("%d CRDs are left", count)
			}
		})
	}
}
