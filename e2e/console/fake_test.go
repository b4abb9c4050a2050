package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// many is an API server that has what would take long to create: types without
// objects, and one type with very many.
type many struct {
	types, objects int
	unready        atomic.Bool
	unreadable     atomic.Bool // types without objects are answered with a page

	mu      sync.Mutex
	version int
	watches map[chan string]bool
}

// serve returns a kubeconfig of it.
func (m *many) serve(t *testing.T) (kubeconfig string) {
	t.Helper()
	m.version, m.watches = 1_000_000, map[chan string]bool{}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // of watches
	kubeconfig = filepath.Join(t.TempDir(), "many.kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"many","clusters":[{"name":"many","cluster":{"server":%q}}],"contexts":[{"name":"many","context":{"cluster":"many","user":"many"}}],"users":[{"name":"many"}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func (m *many) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/readyz" && m.unready.Load():
		http.Error(w, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed", http.StatusInternalServerError)
	case r.URL.Path == "/readyz", r.URL.Path == "/metrics":
		fmt.Fprint(w, "[+]ping ok\n")
	case strings.HasPrefix(r.URL.Path, "/kube-hyper-mini/"): // as any other API server
		http.NotFound(w, r)
	case r.URL.Path == "/version":
		answer(w, map[string]any{"gitVersion": "v1.36.3"})
	case r.URL.Path == "/api":
		answer(w, discovery())
	case r.URL.Path == "/apis":
		w.Header().Set("Etag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		answer(w, m.groups())
	case strings.HasSuffix(r.URL.Path, "/things") && r.URL.Query().Has("watch"):
		m.watch(w, r)
	case strings.HasSuffix(r.URL.Path, "/things"):
		m.list(w, r)
	case m.unreadable.Load():
		fmt.Fprint(w, "<h1>a gateway's own page</h1>")
	default: // a type without objects
		answer(w, map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
	}
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a page that has left needs none
}

func discovery(groups ...any) map[string]any {
	return map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups}
}

func group(name string, resources ...any) any {
	return map[string]any{"metadata": map[string]any{"name": name}, "versions": []any{map[string]any{"version": "v1", "resources": resources}}}
}

func resource(plural, kind string) any {
	return map[string]any{"resource": plural, "scope": "Cluster", "responseKind": map[string]any{"group": "", "version": "v1", "kind": kind},
		"verbs": []string{"get", "list", "watch", "create", "patch", "delete"}}
}

// groups has 20 types in each, and the one with objects. Beside it are names that
// lead to other paths, which an aggregated API server may announce.
func (m *many) groups() any {
	groups := []any{group("scale.example.org", resource("things", "Thing"),
		resource("../../../api/v1/secrets", "Hidden"), resource(`..\..\..\api\v1\secrets`, "Hidden"), resource("secrets?limit=1", "Hidden"), resource("..", "Hidden"))}
	for i := 0; i < m.types; i += 20 {
		var resources []any
		for j := i; j < min(i+20, m.types); j++ {
			resources = append(resources, resource(fmt.Sprintf("type%04ds", j), fmt.Sprintf("Type%04d", j)))
		}
		groups = append(groups, group(fmt.Sprintf("group%03d.example.org", i/20), resources...))
	}
	return discovery(groups...)
}

// row of an object in a table, with metadata of a usual size.
func row(i, version int) string {
	name := fmt.Sprintf("thing-%06d", i)
	return fmt.Sprintf(`{"cells":[%q,%d,"2026-01-01T00:00:00Z"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"uid":"11111111-2222-3333-4444-%012d","resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"scale","number":"%d"},"managedFields":[{"manager":"scale","operation":"Update","apiVersion":"scale.example.org/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:size":{},"f:region":{}}}}]}}}`,
		name, (i*7919)%1_000_003, name, i, version, i)
}

const columns = `"columnDefinitions":[{"name":"Name","type":"string","format":"name","priority":0},{"name":"Size","type":"integer","format":"","priority":0},{"name":"Age","type":"date","format":"","priority":0}]`

// list answers a page of the table; the token is the number of objects before it.
// Any label selector selects each hundredth object.
func (m *many) list(w http.ResponseWriter, r *http.Request) {
	first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	// As upstream, it does not count what a selector leaves.
	objects, step, counted := m.objects, 1, true
	if r.URL.Query().Get("labelSelector") != "" {
		objects, step, counted = m.objects/100, 100, false
	}
	last := objects
	meta := `"resourceVersion":"1000000"`
	if limit > 0 && first+limit < objects {
		last = first + limit
		meta += fmt.Sprintf(`,"continue":"%d"`, last)
		if counted {
			meta += fmt.Sprintf(`,"remainingItemCount":%d`, objects-last)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{%s},"items":[{"metadata":{"name":"thing-000000","uid":"1"}}]}`, meta)
		return
	}
	rows := make([]string, 0, last-first)
	for i := first; i < last; i++ {
		rows = append(rows, row(i*step, i*step))
	}
	fmt.Fprintf(w, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{%s},%s,"rows":[%s]}`, meta, columns, strings.Join(rows, ","))
}

// watch sends what tell is given until the page leaves.
func (m *many) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan string, 16)
	m.mu.Lock()
	m.watches[events] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.watches, events)
		m.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(time.Minute):
			return
		case event := <-events:
			fmt.Fprintln(w, event)
			w.(http.Flusher).Flush()
		}
	}
}

// tell sends an event of an object to all watches, and returns their number.
func (m *many) tell(kind string, object int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	for events := range m.watches {
		events <- fmt.Sprintf(`{"type":%q,"object":{"kind":"Table","apiVersion":"meta.k8s.io/v1",%s,"rows":[%s]}}`, kind, columns, row(object, m.version))
	}
	return len(m.watches)
}
