package crds

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestDeletedDefinitionsAreDropped: this server has written a.example.com, and the
// informer never tells of its deletion.
func TestDeletedDefinitionsAreDropped(t *testing.T) {
	written, again := light("a", "example.com", "1", 5), light("a", "example.com", "2", 9)
	notFound := apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), written.Name)
	for _, test := range []struct {
		name string
		seen bool // by the informer
		read func(*catalog) error
		want string // the resource version that is left
	}{
		{"deleted", false, func(*catalog) error { return notFound }, ""},
		{"stored", false, func(*catalog) error { return nil }, "5"},
		{"the store cannot be read", false, func(*catalog) error { return errors.New("etcd is away") }, "5"},
		{"made again meanwhile", false, func(c *catalog) error { c.wrote(again); return notFound }, "9"},
		{"the informer has seen it", true, func(*catalog) error { t.Error("it was read"); return nil }, "5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCatalog()
				var deleted []string
				c.listen(func(before, after *apiextensionsv1.CustomResourceDefinition) {
					if after == nil {
						deleted = append(deleted, before.ResourceVersion)
					}
				})
				c.wrote(written)
				if test.seen {
					c.OnUpdate(nil, light("a", "example.com", "1", 5))
				}
				ctx, cancel := context.WithTimeout(t.Context(), deletedCheckInterval+time.Second)
				defer cancel()
				dropDeleted(ctx, c, func(context.Context, string) (*apiextensionsv1.CustomResourceDefinition, error) {
					return nil, test.read(c)
				})
				got := ""
				if crd := c.get(written.Name); crd != nil {
					got = crd.ResourceVersion
				}
				if got != test.want || (len(deleted) > 0) != (test.want == "") {
					t.Errorf("version %q is left, want %q; listeners heard of the deletion of %q", got, test.want, deleted)
				}
			})
		})
	}
}
