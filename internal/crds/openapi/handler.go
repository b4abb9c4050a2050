package openapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/kube-openapi/pkg/handler3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/memory"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

const (
	v2Path = "/openapi/v2"
	v3Path = "/openapi/v3"
	// readTimeout bounds the reading of a definition for a build, which no client
	// ends.
	readTimeout = 30 * time.Second
)

// Handler serves /openapi/v2, /openapi/v3 and the documents below it for custom
// resources and for the types of another handler. It is safe for concurrent
// use.
type Handler struct {
	base    http.Handler
	source  Source
	release string
	log     *slog.Logger
	cache   *memory.Cache[string, *document]
	// building has an entry while a document is built: one user can request the documents of
	// all groups.
	building chan struct{}

	mu sync.Mutex
	// known is the index of the definitions when the number of changes was changes; nil
	// before the first request.
	known   index
	changes uint64
}

// NewHandler adds the custom resources of source to the documents of base. A
// group version that base serves is left to base. release names the program that builds
// the documents, for their hashes.
func NewHandler(base http.Handler, source Source, release string, log *slog.Logger) *Handler {
	return &Handler{base: base, source: source, release: release, log: log,
		cache: memory.NewCache[string, *document](maxCached, idleAfter), building: make(chan struct{}, 1)}
}

// ServeHTTP implements [http.Handler] as kube-openapi's handler and handler3
// packages do.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == v3Path {
		h.serveIndex(w, r)
		return
	}
	switch known := h.index(); {
	case len(known) == 0:
		h.base.ServeHTTP(w, r)
	case r.URL.Path == v2Path:
		h.serveV2(w, r, known)
	default:
		h.serveGroupVersion(w, r, known)
	}
}

// index returns the index of the definitions, which is read-only. It is kept until a
// definition changes: the hashes of 2,452 take 10 ms.
func (h *Handler) index() index {
	changes := h.source.Changes() // before the list: a change after it counts the next time
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known != nil && h.changes == changes {
		return h.known
	}
	h.known, h.changes = newIndex(h.source.List(), h.release), changes
	return h.known
}

// fromBase requests a document of base for a client's request and returns its content and
// its ETag. The response to a HEAD request has no content.
func (h *Handler) fromBase(r *http.Request, method, path, accept string) (content []byte, etag string, err error) {
	request := r.Clone(r.Context())
	request.Method, request.URL, request.RequestURI = method, &url.URL{Path: path}, path
	request.Header = http.Header{"Accept": []string{accept}}
	answer := responsewriter.NewInMemoryResponseWriter()
	h.base.ServeHTTP(answer, request)
	if answer.RespCode() != http.StatusOK {
		return nil, "", fmt.Errorf("read %s of the other API types: %d %s", path, answer.RespCode(),
			strings.TrimSpace(string(answer.Data())))
	}
	return answer.Data(), answer.Header().Get("Etag"), nil
}

func (h *Handler) baseIndex(r *http.Request) (*handler3.OpenAPIV3Discovery, error) {
	content, _, err := h.fromBase(r, http.MethodGet, v3Path, "application/json")
	if err != nil {
		return nil, err
	}
	list := &handler3.OpenAPIV3Discovery{}
	if err := json.Unmarshal(content, list); err != nil {
		return nil, fmt.Errorf("read %s of the other API types: %w", v3Path, err)
	}
	if list.Paths == nil {
		list.Paths = map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}
	}
	return list, nil
}

// serveIndex lists the v3 documents.
func (h *Handler) serveIndex(w http.ResponseWriter, r *http.Request) {
	list, err := h.baseIndex(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	for path, gv := range h.index() { // after the wait for base: definitions may have come meanwhile
		if _, other := list.Paths[path]; !other {
			list.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: serverRelativeURL(path, gv.hash)}
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		http.Error(w, "encode the list of OpenAPI documents: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Etag", strconv.Quote(digest(string(data))))
	http.ServeContent(w, r, v3Path, time.Time{}, bytes.NewReader(data))
}

func serverRelativeURL(path, hash string) string {
	return v3Path + "/" + path + "?" + url.Values{"hash": []string{hash}}.Encode()
}

// serveGroupVersion serves a v3 document. Its headers are those of
// handler3.OpenAPIService.HandleGroupVersion.
func (h *Handler) serveGroupVersion(w http.ResponseWriter, r *http.Request, known index) {
	path := strings.TrimPrefix(r.URL.Path, v3Path+"/")
	gv := known[path]
	if gv == nil {
		h.base.ServeHTTP(w, r)
		return
	}
	list, err := h.baseIndex(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if _, other := list.Paths[path]; other {
		h.base.ServeHTTP(w, r)
		return
	}
	encoding := customresources.Negotiate(r, customresources.V3Encodings)
	if encoding == nil {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != gv.hash {
			http.Redirect(w, r, serverRelativeURL(path, gv.hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	h.serve(w, r, encoding, gv.hash, func(ctx context.Context) ([]byte, error) {
		return h.buildV3(ctx, gv, encoding)
	})
}

func (h *Handler) serveV2(w http.ResponseWriter, r *http.Request, known index) {
	encoding := customresources.Negotiate(r, customresources.V2Encodings)
	if encoding == nil {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	_, base, err := h.fromBase(r, http.MethodHead, v2Path, "application/json")
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	h.serve(w, r, encoding, digest(known.hash(), base), func(ctx context.Context) ([]byte, error) {
		return h.buildV2(r.WithContext(ctx), known, encoding)
	})
}

// serve answers with the document of that ETag, which is built once if it is not
// cached, however many clients request it.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, e *customresources.Encoding, etag string,
	build func(context.Context) ([]byte, error)) {
	key := e.SubType + " " + r.URL.Path + " " + etag
	d := h.cache.Get(key)
	if d == nil && r.Header.Get("If-None-Match") == strconv.Quote(etag) {
		d = &document{contentType: e.ContentType, etag: etag} // the client has it
	}
	if d == nil {
		var err error
		d, err = h.built(r.Context(), key, func(ctx context.Context) (*document, error) {
			data, err := build(ctx)
			return &document{contentType: e.ContentType, etag: etag, compressed: data}, err
		})
		if err != nil {
			if r.Context().Err() == nil {
				h.log.Error("building an OpenAPI document failed", "path", r.URL.Path, "error", err)
			}
			http.Error(w, "build the OpenAPI document: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	d.serve(w, r)
}

// built returns the document of the key, which one request builds for all. A build that has begun
// continues without its client, since others may wait for it; one that waits for other builds
// ends with its client.
func (h *Handler) built(ctx context.Context, key string,
	build func(context.Context) (*document, error)) (*document, error) {
	select {
	case h.building <- struct{}{}:
		defer func() { <-h.building }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if d := h.cache.Get(key); d != nil {
		return d, nil
	}
	d, err := build(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	h.cache.Add(key, d, len(d.compressed))
	return d, nil
}

// buildV3 builds the document of a group version.
func (h *Handler) buildV3(ctx context.Context, gv *groupVersion, e *customresources.Encoding) ([]byte, error) {
	out, err := newV3Encoder(e)
	if err != nil {
		return nil, err
	}
	taken := &memberSet{}
	return h.build(ctx, gv.names, out, func(d *apiextensionsv1.CustomResourceDefinition) ([]*part, error) {
		p, err := v3Part(d, gv.version, taken)
		return []*part{p}, err
	})
}

// build adds the parts of the definitions to a document, on half of the processors: other
// requests need the rest.
func (h *Handler) build(ctx context.Context, names []string, out encoder,
	parts func(*apiextensionsv1.CustomResourceDefinition) ([]*part, error)) ([]byte, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, runtime.GOMAXPROCS(0)/2))
	for _, name := range names {
		group.Go(func() error {
			definition, err := h.read(ctx, name)
			if apierrors.IsNotFound(err) {
				return nil // deleted since it was listed
			}
			if err != nil {
				return fmt.Errorf("read the custom resource definition %s: %w", name, err)
			}
			list, err := parts(definition)
			if err != nil {
				// As upstream: a schema that cannot be described has no part.
				h.log.Debug("a custom resource definition has no OpenAPI", "name", name, "error", err)
				return nil
			}
			var errs []error
			for _, p := range list {
				errs = append(errs, out.add(p))
			}
			return errors.Join(errs...)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out.finish()
}

func (h *Handler) read(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return h.source.Get(ctx, name)
}

// Source reads CustomResourceDefinitions. Its methods are called concurrently.
type Source interface {
	// List returns all definitions. Their schemas are not read.
	List() []*apiextensionsv1.CustomResourceDefinition
	// Get returns a definition with its schemas, or a NotFound error.
	Get(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error)
	// Changes returns a number that grows with each change of a definition.
	Changes() uint64
}

// groupVersion is what a v3 document is built from.
type groupVersion struct {
	version string
	names   []string // of the definitions, sorted
	hash    string   // changes when the document does
}

// index lists the group versions of established definitions by the path of
// their v3 document below /openapi/v3/.
type index map[string]*groupVersion

// newIndex derives the hashes from uid and generation, so that no document is built for
// them. A release may build a document in another way than the last one, so it is part of
// the hash.
func newIndex(definitions []*apiextensionsv1.CustomResourceDefinition, release string) index {
	definitions = slices.SortedFunc(slices.Values(definitions), func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(a.Name, b.Name)
	})
	x := index{}
	for _, definition := range definitions {
		if !apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
			continue
		}
		for _, version := range definition.Spec.Versions {
			if !version.Served {
				continue
			}
			path := "apis/" + definition.Spec.Group + "/" + version.Name
			gv := x[path]
			if gv == nil {
				gv = &groupVersion{version: version.Name, hash: release}
				x[path] = gv
			}
			gv.names = append(gv.names, definition.Name)
			gv.hash = digest(append([]string{gv.hash}, customresources.DocumentVersion(definition)...)...)
		}
	}
	return x
}

// names lists the definitions that serve at least one version, sorted.
func (x index) names() []string {
	var all []string
	for _, gv := range x {
		all = append(all, gv.names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hash changes when any document does.
func (x index) hash() string {
	parts := make([]string, 0, len(x))
	for path, gv := range x {
		parts = append(parts, path+" "+gv.hash)
	}
	slices.Sort(parts)
	return digest(parts...)
}

// digest is a hash of the parts in their order.
func digest(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
