package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestOneListener: the API's port is the only way in. etcd has none.
func TestOneListener(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	port, err := strconv.ParseUint(portOf(t, s), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	// An address in /proc is in the byte order of the machine; ports are not.
	want := fmt.Sprintf(":%04X", port)
	listening := listeners(t, s.PID(), "tcp", "tcp6", "udp", "udp6")
	if len(listening) != 1 || !strings.HasSuffix(listening[0], want) {
		t.Errorf("the process listens on %v, want one address with the port %s", listening, want)
	}
}

// listeners are the local addresses of the process's sockets that wait for
// somebody: listening in TCP, unconnected in UDP.
func listeners(t *testing.T, pid int, protocols ...string) []string {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	entries, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, entry := range entries {
		// A file may have been closed since.
		if target, err := os.Readlink(filepath.Join(proc, "fd", entry.Name())); err == nil {
			own[target] = true
		}
	}
	var found []string
	for _, protocol := range protocols {
		table, err := os.ReadFile(filepath.Join(proc, "net", protocol))
		if os.IsNotExist(err) {
			continue // a machine without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			fields := strings.Fields(line) // sl local remote state ... inode
			if len(fields) < 10 || !own["socket:["+fields[9]+"]"] {
				continue
			}
			if waiting := []string{"0A", "07"}; slices.Contains(waiting, fields[3]) {
				found = append(found, fields[1])
			}
		}
	}
	return found
}

// TestDeletedKindsLeaveNothing: the serving machinery of a CRD ends with it.
func TestDeletedKindsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client, host := admin(t, s)
	goroutines := func() int {
		page := body(t, client, host+"/debug/pprof/goroutine?debug=1", http.StatusOK)
		match := regexp.MustCompile(`goroutine profile: total (\d+)`).FindStringSubmatch(page)
		if match == nil {
			t.Fatalf("no total in:\n%.200s", page)
		}
		n, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// The first ones start what is started once.
	comeAndGo(t, s, 3)
	before := goroutines()
	const kinds = 15
	comeAndGo(t, s, kinds)
	harness.Eventually(t, "there are no more goroutines than before", func() error {
		if now := goroutines(); now >= before+kinds {
			return fmt.Errorf("%d kinds have come and gone, and with them %d goroutines have become %d", kinds, before, now)
		}
		return nil
	})
}

// comeAndGo makes kinds with an object each and deletes them.
func comeAndGo(t *testing.T, s *harness.Server, n int) {
	t.Helper()
	client := s.Dynamic()
	definitions := client.Resource(crdResource)
	kinds := make([]kind, n)
	for i := range kinds {
		k := newKind()
		kinds[i] = k
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(k.definition("Namespaced")), crd); err != nil {
			t.Fatal(err)
		}
		if _, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range kinds {
		widgets := client.Resource(k.resource()).Namespace("default")
		harness.Eventually(t, "the kind is served", func() error { return createOne(t, widgets, k) })
		if err := definitions.Delete(t.Context(), k.crd(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range kinds {
		gone(t, "the kind", func() error {
			_, err := definitions.Get(t.Context(), k.crd(), metav1.GetOptions{})
			return err
		})
	}
}

func createOne(t *testing.T, client dynamic.ResourceInterface, k kind) error {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.resource().GroupVersion().WithKind(k.name))
	obj.SetName("w")
	_, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
	return err
}
