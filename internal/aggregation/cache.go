package aggregation

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/server/mux"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/handler3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// maxDocument bounds the memory for a document, in bytes. OpenAPI of all of
	// Kubernetes is 6 MB.
	maxDocument = 64 << 20
	// failuresBeforeLog is the number of failed fetches in a row before they are logged.
	// That a server has ended is logged before, as unavailable.
	failuresBeforeLog = 2
)

const (
	groupsPath    = "/apis"
	openAPIV2Path = "/openapi/v2"
	openAPIV3Path = "/openapi/v3"
)

// documentCache holds the discovery and OpenAPI documents of the server of an
// APIService. As a handler it answers the sinks from memory, with 503 if it has no
// document.
type documentCache struct {
	v3     *handler3.OpenAPIService
	v3Mux  *mux.PathRecorderMux // the handler for OpenAPI v3
	v3Path string

	// Used by the worker that fetches; there is one at a time.
	inV2, inV3 bool // whether the sink has the document
	failures   int

	mu        sync.RWMutex
	available bool
	answers   map[string]*answer // by path
}

// answer is a document as it was received. An OpenAPI document, which can be large, has
// no body after the sink has read it.
type answer struct {
	contentType string
	etag        string // for If-None-Match
	digest      [sha256.Size]byte
	body        []byte
}

func newDocumentCache(service *apiregistrationv1.APIService) *documentCache {
	c := &documentCache{
		v3: handler3.NewOpenAPIService(), v3Mux: mux.NewPathRecorderMux(service.Name),
		v3Path:    openAPIV3Path + kube.DiscoveryPath(service),
		available: isAvailable(service), answers: map[string]*answer{},
	}
	_ = c.v3.RegisterOpenAPIV3VersionedService(openAPIV3Path, c.v3Mux) // always nil
	return c
}

// setAvailable records the Available condition. If it is false, the discovery
// documents are dropped.
func (c *documentCache) setAvailable(available bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.available = available
	if !available {
		maps.DeleteFunc(c.answers, func(path string, _ *answer) bool { return path != openAPIV2Path && path != c.v3Path })
	}
}

func (c *documentCache) get(path string) *answer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.answers[path]
}

// put keeps an answer; nil removes it.
func (c *documentCache) put(path string, a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a == nil {
		delete(c.answers, path)
		return
	}
	c.answers[path] = a
}

// ServeHTTP implements [http.Handler] for the sinks.
func (c *documentCache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.RLock()
	available, a := c.available, c.answers[r.URL.Path]
	empty := len(c.answers) == 0
	c.mu.RUnlock()
	switch {
	case !available && r.URL.Path != openAPIV2Path, empty:
		http.Error(w, "the server's documents have not been read", http.StatusServiceUnavailable)
	case a == nil || a.body == nil:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", a.contentType)
		if a.etag != "" {
			w.Header().Set("Etag", a.etag)
		}
		_, _ = w.Write(a.body) // into memory
	}
}

// withoutBody returns the answer without its body.
func (a *answer) withoutBody() *answer {
	return &answer{contentType: a.contentType, etag: a.etag, digest: a.digest}
}
