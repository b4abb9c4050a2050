package kube_test

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes/scheme"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// TestNamesVersion: errors of the validation name the keys of runtimeConfig that are wrong,
// and the flag of a wrong value.
func TestNamesVersion(t *testing.T) {
	const unknown, other, known = "nosuch.k8s.io/v1", "other.k8s.io/v1", "apps/v1"
	enablement := &options.APIEnablementOptions{RuntimeConfig: map[string]string{unknown: "true", other: "true", known: "true", "api/all": "true"}}
	errs := enablement.Validate(scheme.Scheme)
	if len(errs) != 1 {
		t.Fatalf("the errors are %v", errs)
	}
	words := kube.WordsOf(errs[0])
	for key, want := range map[string]bool{unknown: true, other: true, known: false, "api/all": false} {
		if kube.NamesVersion(words, key) != want {
			t.Errorf("%v names %s: %t", errs[0], key, !want)
		}
	}

	authorization := kubeoptions.NewBuiltInAuthorizationOptions()
	authorization.Modes = []string{"NoSuch"}
	errs = authorization.Validate()
	if len(errs) != 1 || !kube.WordsOf(errs[0])["authorization-mode"] {
		t.Errorf("the errors are %v", errs)
	}
	text := kube.NameField("--authorization-mode=RBAC, --authorization-mode", "authorization-mode", "apiServer.authorization")
	if !strings.HasPrefix(text, "apiServer.authorization=RBAC") {
		t.Errorf("the text is %s", text)
	}
}
