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
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestOneListener: the API's port is the only listener. etcd has none.
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

// listeners returns the local addresses of the process's sockets that accept
// traffic: listening in TCP, unconnected in UDP.
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

// TestDeletedTypesReleaseGoroutines: the goroutines of a CRD in the API servers and
// controllers end with it, and nothing requests the type any more.
func TestDeletedTypesReleaseGoroutines(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client, host := admin(t, s)                           // one connection, whose goroutines are counted too
	createAndDelete(t, s, 1, func() error { return nil }) // starts what starts with the first type
	before, watching := 0, 0
	harness.Eventually(t, "no more informers start", func() error {
		then := watching
		if before, watching = goroutines(t, client, host); watching != then {
			<-time.After(3 * time.Second) // longer than the controllers' interval of discovery
			return fmt.Errorf("%d informers have become %d", then, watching)
		}
		return nil
	})
	const kinds = 15
	createAndDelete(t, s, kinds, func() error {
		if _, now := goroutines(t, client, host); now < watching+kinds {
			return fmt.Errorf("%d informers were there, and with %d kinds there are %d", watching, kinds, now)
		}
		return nil
	})
	harness.Within(t, 2*harness.Patience, "there are no more goroutines than before", func() error {
		<-time.After(time.Second) // the end takes a minute, and each profile stops the world
		now, nowWatching := goroutines(t, client, host)
		if nowWatching > watching || now >= before+kinds {
			return fmt.Errorf("%d kinds have come and gone; %d goroutines have become %d, %d informers %d", kinds, before, now, watching, nowWatching)
		}
		return nil
	})
	if lines := harness.Problems(s.Log()); lines != "" {
		t.Errorf("the deleted types are still requested:\n%s", lines)
	}
}

// goroutines counts the process's goroutines, and those of informers.
func goroutines(t *testing.T, client *http.Client, host string) (total, informers int) {
	t.Helper()
	page := body(t, client, host+"/debug/pprof/goroutine?debug=1", http.StatusOK)
	// Each paragraph is a number of goroutines and the stack that they share.
	for stack := range strings.SplitSeq(page, "\n\n") {
		match := regexp.MustCompile(`(?m)^(\d+) @`).FindStringSubmatch(stack)
		if match == nil {
			continue
		}
		n, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		total += n
		if strings.Contains(stack, "cache.(*controller).processLoop") {
			informers += n
		}
	}
	if total == 0 || informers == 0 {
		t.Fatalf("no goroutines in:\n%.200s", page)
	}
	return total, informers
}

// createAndDelete creates types with an object each, waits until they are monitored, and
// deletes them.
func createAndDelete(t *testing.T, s *harness.Server, n int, known func() error) {
	t.Helper()
	client, configMaps := s.Dynamic(), s.Client().CoreV1().ConfigMaps("default")
	definitions := client.Resource(crdResource)
	owner, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: unique("owner")}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
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
		harness.Eventually(t, "the kind is served", func() error {
			return createOne(t, widgets, k, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID})
		})
	}
	if err := configMaps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the controllers know the kinds", known)
	for _, k := range kinds {
		gone(t, "the owned object", func() error {
			_, err := client.Resource(k.resource()).Namespace("default").Get(t.Context(), "w", metav1.GetOptions{})
			return err
		})
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

func createOne(t *testing.T, client dynamic.ResourceInterface, k kind, owner metav1.OwnerReference) error {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.resource().GroupVersion().WithKind(k.name))
	obj.SetName("w")
	obj.SetOwnerReferences([]metav1.OwnerReference{owner})
	_, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
	return err
}
