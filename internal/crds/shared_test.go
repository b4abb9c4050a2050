package crds

import (
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// detectWrites fails the test at its end if a CRD of the catalog was written to: its
// objects are shared by all that read them.
func detectWrites(t testing.TB, c *catalog) {
	t.Helper()
	d := &writeDetector{}
	c.listen(d.add)
	t.Cleanup(func() {
		for _, name := range d.written() {
			t.Errorf("%s was written to while others may read it", name)
		}
	})
}

// writeDetector compares shared CRDs with copies.
type writeDetector struct {
	mu     sync.Mutex
	shared []*apiextensionsv1.CustomResourceDefinition
	copies []*apiextensionsv1.CustomResourceDefinition
}

func (d *writeDetector) add(_, crd *apiextensionsv1.CustomResourceDefinition) {
	if crd == nil { // it is deleted
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shared, d.copies = append(d.shared, crd), append(d.copies, crd.DeepCopy())
}

// written returns the names of CRDs that have changed since they were added.
func (d *writeDetector) written() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, crd := range d.shared {
		if !equality.Semantic.DeepEqual(crd, d.copies[i]) {
			names = append(names, d.copies[i].Name)
		}
	}
	return names
}

func TestWritesToSharedDefinitionsAreDetected(t *testing.T) {
	c, d := newCatalog(), &writeDetector{}
	c.listen(d.add)
	read, written := light("as", "example.com", "1", 5), light("bs", "example.com", "2", 6)
	c.wrote(read)
	c.wrote(written)
	if names := d.written(); len(names) != 0 {
		t.Errorf("written without a write: %q", names)
	}
	written.Spec.Names.ShortNames = append(written.Spec.Names.ShortNames, "b")
	if names := d.written(); len(names) != 1 || names[0] != written.Name {
		t.Errorf("written: %q, want %s", names, written.Name)
	}
}
