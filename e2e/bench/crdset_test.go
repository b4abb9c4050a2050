package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestReadDefinitions: the copies are CRDs of other names that are valid by the
// rule that a CRD is called plural.group.
func TestReadDefinitions(t *testing.T) {
	const text = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.storage.example.com}
spec:
  group: storage.example.com
  names: {kind: Bucket, listKind: BucketList, plural: buckets, singular: bucket, shortNames: [b]}
  scope: Namespaced
  versions: [{name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, required: [spec]}}}]
status: {conditions: []}
`
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, content := range map[string]string{"README.md": "no CRD", "buckets.yaml": text} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "crds.tar")
	if err := os.WriteFile(file, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := readDefinitions(t.Context(), file, 4)
	if err != nil {
		t.Fatal(err)
	}
	if len(set) != 4 {
		t.Fatalf("%d CRDs, want 4", len(set))
	}
	kinds := map[string]bool{}
	for _, d := range set {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := json.Unmarshal(d.body, &crd); err != nil {
			t.Fatal(err)
		}
		if want := crd.Spec.Names.Plural + "." + crd.Spec.Group; crd.Name != want || d.name != want {
			t.Errorf("the CRD %s is called %s", want, crd.Name)
		}
		if d.bare || !d.namespaced || d.version != "v1beta1" {
			t.Errorf("got %+v", d)
		}
		kinds[crd.Spec.Group+crd.Spec.Names.Kind] = true
	}
	if len(kinds) != 4 {
		t.Errorf("the kinds are not different: %v", kinds)
	}
	if _, err := readDefinitions(t.Context(), filepath.Join(t.TempDir(), "none.tar.xz"), 1); err == nil || !strings.Contains(err.Error(), "-crd-archive") {
		t.Errorf("without an archive: %v", err)
	}
}
