package endpoints

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTheDefinitionSaysWhatItIs(t *testing.T) {
	first, err := definition()
	if err != nil {
		t.Fatal(err)
	}
	second, err := definition()
	if err != nil {
		t.Fatal(err)
	}
	if digest := first.GetAnnotations()[digestAnnotation]; digest == "" || digest != second.GetAnnotations()[digestAnnotation] {
		t.Errorf("the digest is %q, then %q", digest, second.GetAnnotations()[digestAnnotation])
	}
	content, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, found, _ := unstructured.NestedMap(first.Object, "status"); found {
		t.Errorf("the definition has a status: %s", content)
	}
}

func TestReadRefusesBadTargets(t *testing.T) {
	for targets, good := range map[string]bool{
		`["https://a:1","https://b"]`: true, `[]`: false, `["http://a:1"]`: false, `["https://a:1/path"]`: false, `[1]`: false,
	} {
		object := &unstructured.Unstructured{}
		content := fmt.Sprintf(`{"apiVersion":"kube-hyper-mini.io/v1alpha1","kind":"ServiceEndpoint","metadata":{"namespace":"ns","name":"svc"},"spec":{"targets":%s}}`, targets)
		if err := object.UnmarshalJSON([]byte(content)); err != nil {
			t.Fatal(err)
		}
		_, list, err := read(object)
		if (err == nil) != good || good && len(list) != 2 {
			t.Errorf("%s is read as %v, %v", targets, list, err)
		}
	}
}
