package packaging

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsinstall "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	coreinstall "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkinginstall "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyinstall "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// scheme has the types of the manifests with upstream's defaults.
func scheme() *runtime.Scheme {
	for _, install := range []func(*runtime.Scheme){appsinstall.Install, coreinstall.Install, networkinginstall.Install, policyinstall.Install} {
		install(legacyscheme.Scheme)
	}
	return legacyscheme.Scheme
}

// render is `kubectl kustomize`, decoded strictly and defaulted.
func render(t *testing.T, scheme *runtime.Scheme, dir string) []runtime.Object {
	t.Helper()
	out, err := harness.Run(t, "", harness.KubectlBinary(t), "kustomize", filepath.Join(harness.Root(t), "packaging", "kubernetes", dir))
	if err != nil {
		t.Fatalf("kustomize: %v\n%s", err, out)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	var objects []runtime.Object
	for documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(out))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := strict.Decode(document, nil, nil)
		if err != nil {
			t.Errorf("%v in\n%s", err, document)
			continue
		}
		scheme.Default(object)
		internal, err := scheme.ConvertToVersion(object, schema.GroupVersion{Group: object.GetObjectKind().GroupVersionKind().Group, Version: runtime.APIVersionInternal})
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, internal)
	}
}

// validate returns the errors of the API server of a cluster.
func validate(t *testing.T, object runtime.Object) field.ErrorList {
	t.Helper()
	switch o := object.(type) {
	case *apps.StatefulSet:
		return appsvalidation.ValidateStatefulSet(o, corevalidation.PodValidationOptions{})
	case *apps.Deployment:
		return appsvalidation.ValidateDeployment(o, corevalidation.PodValidationOptions{})
	case *core.Service:
		return corevalidation.ValidateServiceCreate(o)
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(o)
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(o)
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(o, networkingvalidation.NetworkPolicyValidationOptions{})
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{})
	}
	t.Errorf("there is no validation for a %T", object)
	return nil
}

func TestManifestsAreValid(t *testing.T) {
	t.Parallel()
	scheme := scheme()
	for _, dir := range []string{"embedded", "external"} {
		t.Run(dir, func(t *testing.T) {
			objects := render(t, scheme, dir)
			if len(objects) != 6 {
				t.Errorf("%d objects, want 6", len(objects))
			}
			for _, object := range objects {
				for _, err := range validate(t, object) {
					t.Errorf("%T: %v", object, err)
				}
			}
		})
	}
}

// TestPackagedConfigurationsAreValid validates them with the program itself.
func TestPackagedConfigurationsAreValid(t *testing.T) {
	t.Parallel()
	packaging := filepath.Join(harness.Root(t), "packaging")
	empty := filepath.Join(t.TempDir(), "empty")
	harness.WriteFile(t, empty, "")
	for _, name := range []string{"systemd/config.yaml", "image/config.yaml", "kubernetes/embedded/config.yaml", "kubernetes/external/config.yaml"} {
		text := string(harness.ReadFile(t, filepath.Join(packaging, name)))
		for _, file := range []string{"ca.crt", "tls.crt", "tls.key"} {
			text = strings.ReplaceAll(text, "/etc/kube-hyper-mini-etcd/"+file, empty)
		}
		config := filepath.Join(t.TempDir(), "config.yaml")
		harness.WriteFile(t, config, text)
		if out, code := harness.CLI(t, "config", "validate", config); code != 0 {
			t.Errorf("%s: exit code %d:\n%s", name, code, out)
		}
	}
}

// TestImageTagExists: the kustomizations name the image of the newest release in
// the changelog.
func TestImageTagExists(t *testing.T) {
	t.Parallel()
	root := harness.Root(t)
	read := func(elem ...string) string {
		data := harness.ReadFile(t, filepath.Join(append([]string{root, "packaging"}, elem...)...))
		return string(data)
	}
	newest := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindStringSubmatch(read("CHANGELOG.md"))
	if newest == nil {
		t.Fatal("the changelog names no release")
	}
	for _, kind := range []string{"embedded", "external"} {
		if text := read("kubernetes", kind, "kustomization.yaml"); !strings.Contains(text, "\n  newTag: v"+newest[1]+"\n") {
			t.Errorf("the kustomization of %s does not name v%s:\n%s", kind, newest[1], text)
		}
	}
}
