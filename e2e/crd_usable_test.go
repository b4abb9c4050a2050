package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// strict fails the test for each answer that is an error, also those that the
// client would retry.
type strict struct {
	t    *testing.T
	next http.RoundTripper
}

func (s strict) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(r)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		s.t.Errorf("%s %s: %s", r.Method, r.URL.Path, response.Status)
	}
	return response, err
}

// parse reads a manifest.
func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// condition is the status of a CRD's condition, empty if there is none.
func condition(crd *unstructured.Unstructured, name string) string {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == name {
			return fmt.Sprint(c["status"])
		}
	}
	return ""
}

// rounds is how often a test repeats: CRD_ROUNDS, or usual.
func rounds(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv("CRD_ROUNDS")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("CRD_ROUNDS: %v", err)
	}
	return n
}

// writtenOnce: a CRD was not written again after its creation was answered.
func writtenOnce(t *testing.T, client dynamic.Interface, created *unstructured.Unstructured) {
	t.Helper()
	now, err := client.Resource(crdResource).Get(t.Context(), created.GetName(), metav1.GetOptions{})
	if err != nil || now.GetResourceVersion() != created.GetResourceVersion() {
		t.Errorf("%v: the creation was answered with resource version %s, now it is %s", err, created.GetResourceVersion(), now.GetResourceVersion())
	}
}

// strictClient returns a client of the server, and its configuration, that fails the
// test at each answer that is an error.
func strictClient(t *testing.T, s *harness.Server) (*dynamic.DynamicClient, *rest.Config) {
	t.Helper()
	config := s.RESTConfig()
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return strict{t, next} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, config
}

// TestCreatedTypesAreUsableAtOnce: a client that creates a CRD, or applies it, uses it as
// soon as that is answered, and no answer is an error.
func TestCreatedTypesAreUsableAtOnce(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	client, config := strictClient(t, s)
	described, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(objects dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return objects.Create(t.Context(), object, metav1.CreateOptions{})
	}
	apply := func(objects dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return objects.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "test"})
	}
	group := unique("g") + ".example.com"
	for round := range 2 * rounds(t, 5) {
		k := kind{group, fmt.Sprintf("things%d", round), fmt.Sprintf("thing%d", round), fmt.Sprintf("Thing%d", round)}
		write := create
		if round%2 == 1 {
			write = apply
			k.group = unique("g") + ".example.com" // of a type alone
		}
		created, err := write(client.Resource(crdResource), parse(t, k.definition("Namespaced")))
		if err != nil {
			t.Fatal(err)
		}
		if condition(created, "NamesAccepted") != "True" || condition(created, "Established") != "True" {
			t.Fatalf("the answer is not established: %v", created.Object["status"])
		}
		if _, err := write(client.Resource(k.resource()).Namespace("default"), parse(t, k.object("one", ""))); err != nil {
			t.Fatal(err)
		}
		if list, err := client.Resource(k.resource()).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
			t.Fatalf("%v: %v", err, list)
		}
		_, resources, _, err := described.GroupsAndMaybeResources()
		if err != nil || resources[k.resource().GroupVersion()] == nil || !strings.Contains(fmt.Sprint(resources[k.resource().GroupVersion()].APIResources), k.plural) {
			t.Fatalf("%v: discovery lacks %s", err, k.plural)
		}
		writtenOnce(t, client, created)
		if err := client.Resource(crdResource).Delete(t.Context(), k.crd(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	k := newKind()
	s.Kubectl(k.definition("Namespaced"), "create", "-f", "-")
	harness.Contains(t, s.Kubectl(k.object("one", ""), "create", "-n", "default", "-f", "-"), "created")
	s.Kubectl("", "delete", "crd", k.crd())
}

// TestOneOfManyDefinitionsAcceptsTheNames: CRDs of one group and kind are created at
// the same time. When the one that has the kind is deleted, another gets it.
func TestOneOfManyDefinitionsAcceptsTheNames(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	definitions := s.Dynamic().Resource(crdResource)
	k := newKind()
	const twins = 6
	var all sync.WaitGroup
	created := make([]*unstructured.Unstructured, twins)
	for i := range twins {
		twin := kind{k.group, fmt.Sprintf("twins%d", i), fmt.Sprintf("twin%d", i), "Same"}
		all.Go(func() {
			var err error
			if created[i], err = definitions.Create(t.Context(), parse(t, twin.definition("Namespaced")), metav1.CreateOptions{}); err != nil {
				t.Errorf("create %s: %v", twin.plural, err)
			}
		})
	}
	if all.Wait(); t.Failed() {
		return
	}
	accepted := func() (names []string, refused int) {
		for _, twin := range created {
			crd, err := definitions.Get(t.Context(), twin.GetName(), metav1.GetOptions{})
			switch {
			case err != nil || crd.GetDeletionTimestamp() != nil: // deleted
			case condition(crd, "Established") == "True":
				names = append(names, twin.GetName())
			case condition(crd, "NamesAccepted") == "False":
				refused++
			}
		}
		return names, refused
	}
	await := func(left int) (winner string) {
		harness.Eventually(t, "one CRD has the kind", func() error {
			names, refused := accepted()
			if len(names) != 1 || refused != left-1 {
				return fmt.Errorf("%q have it, %d are refused", names, refused)
			}
			winner = names[0]
			return nil
		})
		return winner
	}
	first := await(twins)
	if err := definitions.Delete(t.Context(), first, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if second := await(twins - 1); second == first {
		t.Errorf("%s still has the kind", first)
	}
	for _, twin := range created {
		_ = definitions.Delete(t.Context(), twin.GetName(), metav1.DeleteOptions{}) // one is gone
	}
}

// TestTypesAreCounted: a CRD that is not used is installed and not resident, and has no
// metrics of its own.
func TestTypesAreCounted(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	used, unused := newKind(), newKind()
	for _, k := range []kind{used, unused} {
		s.Kubectl(k.definition("Namespaced"), "create", "-f", "-")
	}
	s.Kubectl(used.object("one", ""), "create", "-n", "default", "-f", "-")
	definitions := len(strings.Fields(s.Kubectl("", "get", "crd", "-o", "name")))
	harness.Eventually(t, "the types are counted", func() error { // the counts follow a watch
		out := s.Kubectl("", "get", "--raw", "/kube-hyper-mini/status")
		if !strings.Contains(out, fmt.Sprintf(`"installed": %d`, definitions)) || !strings.Contains(out, `"populated": 1`) {
			return errors.New(out)
		}
		return nil
	})
	harness.Contains(t, s.Status(),
		fmt.Sprintf("%d custom resource definitions, 1 with objects", definitions))
	metrics := s.Kubectl("", "get", "--raw", "/metrics")
	harness.Contains(t, metrics, fmt.Sprintf("\nkube_hyper_mini_custom_types_installed %d\n", definitions))
	if strings.Contains(metrics, unused.group) {
		t.Error("a type that is not used has metrics of its own")
	}
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, "kube_hyper_mini_custom_types_resident "); ok && strings.TrimSpace(value) == fmt.Sprint(definitions) {
			t.Errorf("all %d types are resident", definitions)
		}
	}
}
