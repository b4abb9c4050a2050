package e2e

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestMetadataOfDefinitions: lists that have metadata only have all of it, and
// others have the schemas.
func TestMetadataOfDefinitions(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	k := newKind()
	s.Kubectl(k.definition("Namespaced"), "apply", "-f", "-")
	selected := metav1.ListOptions{FieldSelector: "metadata.name=" + k.crd()}
	whole, err := s.Dynamic().Resource(crdResource).List(t.Context(), selected)
	if err != nil || len(whole.Items) != 1 {
		t.Fatalf("%v: %v", err, whole)
	}
	objects, err := metadata.NewForConfig(s.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	bare, err := objects.Resource(crdResource).List(t.Context(), selected)
	if err != nil || len(bare.Items) != 1 {
		t.Fatalf("%v: %v", err, bare)
	}
	one, want := bare.Items[0], whole.Items[0]
	if !reflect.DeepEqual(one.Annotations, want.GetAnnotations()) || len(one.Annotations) == 0 || one.UID != want.GetUID() ||
		one.ResourceVersion != want.GetResourceVersion() || len(one.ManagedFields) != len(want.GetManagedFields()) || len(one.ManagedFields) == 0 {
		t.Errorf("the metadata is %v, want that of %v", one.ObjectMeta, want.Object["metadata"])
	}

	client := s.Client().Discovery().RESTClient()
	const table, schema = "application/json;as=Table;v=v1;g=meta.k8s.io", `"openAPIV3Schema"`
	for _, c := range []struct {
		accept, include string
		whole           bool
	}{
		{accept: table},
		{accept: table + ",application/json"},
		{accept: table, include: "Metadata"},
		{accept: table, include: "Object", whole: true},
		{accept: "application/json", whole: true},
		{accept: table + ";q=0.5,application/json", whole: true},
		{accept: "application/json;as=Table;v=v7;g=meta.k8s.io,application/json", whole: true},
	} {
		request := client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
			Param("fieldSelector", selected.FieldSelector).SetHeader("Accept", c.accept)
		if c.include != "" {
			request.Param("includeObject", c.include)
		}
		text, err := request.DoRaw(t.Context())
		if err != nil || !strings.Contains(string(text), k.crd()) || strings.Contains(string(text), schema) != c.whole {
			t.Errorf("%+v: %v: %s", c, err, text)
		}
	}
	s.Kubectl("", "delete", "crd", k.crd())
}

// TestCollectionOfDefinitionsIsDeleted: the response has the deleted CRDs in the encoding
// that the client asks for.
func TestCollectionOfDefinitionsIsDeleted(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	client := s.Client().Discovery().RESTClient()
	for _, c := range []struct{ accept, want string }{
		{"application/json", `"openAPIV3Schema"`},
		{"application/yaml", "openAPIV3Schema:"},
		{"application/vnd.kubernetes.protobuf", "CustomResourceDefinitionList"},
		{"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json", `"metadata"`},
	} {
		k := newKind()
		s.Kubectl(k.definition("Namespaced"), "apply", "-f", "-")
		text, err := client.Delete().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
			Param("fieldSelector", "metadata.name="+k.crd()).SetHeader("Accept", c.accept).DoRaw(t.Context())
		if err != nil || !strings.Contains(string(text), k.crd()) || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %v: %s", c.accept, err, text)
		}
		harness.Eventually(t, k.crd()+" to be deleted", func() error {
			if _, err := s.Dynamic().Resource(crdResource).Get(t.Context(), k.crd(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("got %v", err)
			}
			return nil
		})
	}
}
