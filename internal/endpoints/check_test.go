package endpoints

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestReasons(t *testing.T) {
	wrap := func(err error) error { return &url.Error{Op: "Get", URL: "https://targets-1.svc.ns.svc", Err: err} }
	for want, err := range map[string]error{
		reasonNotFound:  wrap(&UnresolvedError{Reference: ref, cause: errors.New("x")}),
		reasonConnect:   wrap(&ConnectError{Reference: ref, cause: errors.New("x")}),
		reasonTLS:       wrap(&tls.CertificateVerificationError{Err: errors.New("x")}),
		reasonDiscovery: wrap(context.DeadlineExceeded),
	} {
		if got := reason(describe(ref, "/apis", err)); got != want {
			t.Errorf("%v has the reason %s, want %s", err, got, want)
		}
	}
}

func TestMessagesStayTheSame(t *testing.T) {
	message := func(port int) string {
		source := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
		return describe(ref, "/apis", &url.Error{Op: "Get", URL: "u", Err: &net.OpError{Op: "read", Net: "tcp", Source: source, Err: errors.New("reset")}}).Error()
	}
	if message(1) != message(2) {
		t.Errorf("the same failure reads %q and %q", message(1), message(2))
	}
}

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
