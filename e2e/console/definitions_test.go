package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// The modules that have CRDs of other projects.
const (
	gatewayAPI         = "sigs.k8s.io/gateway-api"
	certManager        = "github.com/cert-manager/cert-manager"
	crossplane         = "github.com/crossplane/crossplane/v2"
	providerKubernetes = "github.com/crossplane-contrib/provider-kubernetes"
)

// download puts those modules into Go's module cache and returns their directories.
var download = sync.OnceValues(func() (map[string]string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", gatewayAPI, certManager, crossplane, providerKubernetes)
	cmd.Dir = filepath.Join("..", "definitions")
	out, err := cmd.Output()
	dirs := map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var module struct{ Path, Dir, Error string }
		if decodeErr := decoder.Decode(&module); decodeErr == io.EOF {
			break
		} else if decodeErr != nil {
			return nil, errors.Join(decodeErr, err)
		}
		if module.Error != "" {
			return nil, errors.New(module.Error)
		}
		dirs[module.Path] = module.Dir
	}
	if err != nil {
		return nil, fmt.Errorf("go mod download in %s: %w", cmd.Dir, err)
	}
	return dirs, nil
})

// install creates the CRDs in files of a module, whose names follow a prefix. A conversion
// webhook is left out: the project's installer fills in where it is.
func install(t *testing.T, s *harness.Server, module, prefix string, names ...string) {
	t.Helper()
	dirs, err := download()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text := harness.ReadFile(t, filepath.Join(dirs[module], prefix+name+".yaml"))
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &crd.Object); err != nil {
			t.Fatalf("read the CRD %s of %s: %v", name, module, err)
		}
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
		if _, err := s.Dynamic().Resource(definitions).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create the CRD %s of %s: %v", name, module, err)
		}
	}
	s.Await("condition=Established", "crds", "--all")
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// installAll creates the CRDs of Gateway API, cert-manager and Crossplane that the tests use.
func installAll(t *testing.T, s *harness.Server) {
	t.Helper()
	install(t, s, gatewayAPI, "config/crd/standard/gateway.networking.k8s.io_", "gatewayclasses", "gateways", "httproutes")
	install(t, s, certManager, "deploy/crds/", "cert-manager.io_issuers", "cert-manager.io_certificates", "cert-manager.io_certificaterequests", "acme.cert-manager.io_orders", "acme.cert-manager.io_challenges")
	installCrossplane(t, s)
}

// installCrossplane creates CRDs of Crossplane and of a provider, the definitions of
// composite resources, and the CRDs that Crossplane makes of these.
func installCrossplane(t *testing.T, s *harness.Server) {
	t.Helper()
	install(t, s, crossplane, "cluster/crds/apiextensions.crossplane.io_", "compositeresourcedefinitions", "compositions")
	install(t, s, providerKubernetes, "package/crds/kubernetes.", "crossplane.io_objects", "m.crossplane.io_objects")
	s.Kubectl("", "create", "-f", "testdata/xrds.yaml")
	text := harness.ReadFile(t, "testdata/crossplane.yaml")
	made := string(text)
	for _, name := range []string{"xpostgresqls.platform.example.org", "xnetworks.platform.example.org"} {
		uid := s.Kubectl("", "get", "xrd", name, "-o", "jsonpath={.metadata.uid}")
		made = strings.ReplaceAll(made, "name: "+name+"\n    uid: \"\"", "name: "+name+"\n    uid: "+uid)
	}
	s.Kubectl(made, "create", "-f", "-")
	s.Await("condition=Established", "crds", "--all")
}
