package endpoints

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/client-go/discovery"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	openapiv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	// openAPITimeout is upstream's bound (specDownloadTimeout): a server may
	// build the document when it is asked for the first time.
	openAPITimeout = time.Minute
	// maxDocument bounds what a server can make this one hold. OpenAPI of all
	// of Kubernetes is 6 MB.
	maxDocument = 64 << 20
	// failuresToTell is how often in a row a fetch fails before the log says
	// so: a server that ends is not available a moment later, which is said.
	failuresToTell = 2
)

const (
	groupsPath    = "/apis"
	openAPIV2Path = "/openapi/v2"
	openAPIV3Path = "/openapi/v3"

	// Upstream's identities for the two kinds of documents.
	discoveryUser = "system:kube-aggregator"
	openAPIUser   = "system:aggregator"
)

// copies are what the server of an APIService has said about itself. As a
// handler it answers the sinks for discovery and OpenAPI v2 at once, with
// "unavailable" where nothing is known.
type copies struct {
	v3     *handler3.OpenAPIService
	v3Mux  *mux.PathRecorderMux // the handler for OpenAPI v3
	v3Path string

	// Whoever fetches, one at a time, owns these.
	inV2, inV3 bool // whether the sink knows of it
	failures   int

	mu        sync.RWMutex
	available bool
	answers   map[string]*answer // by path
}

// answer is a document as it was received. OpenAPI, which can be large, is
// without its body once the sink has read it.
type answer struct {
	contentType string
	etag        string // with which to ask whether it has changed
	digest      [sha256.Size]byte
	body        []byte
}

func newCopies(service *apiregistrationv1.APIService) *copies {
	c := &copies{
		v3: handler3.NewOpenAPIService(), v3Mux: mux.NewPathRecorderMux(service.Name), v3Path: openAPIV3Path + discoveryPath(service),
		available: isAvailable(service), answers: map[string]*answer{},
	}
	_ = c.v3.RegisterOpenAPIV3VersionedService(openAPIV3Path, c.v3Mux) // always nil
	return c
}

// setAvailable says whether the server is there. What it has said about its
// types does not count any more when it is not.
func (c *copies) setAvailable(available bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.available = available
	if !available {
		maps.DeleteFunc(c.answers, func(path string, _ *answer) bool { return path != openAPIV2Path && path != c.v3Path })
	}
}

func (c *copies) get(path string) *answer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.answers[path]
}

// put keeps an answer; nil removes it.
func (c *copies) put(path string, a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a == nil {
		delete(c.answers, path)
		return
	}
	c.answers[path] = a
}

// ServeHTTP implements [http.Handler] for the sinks.
func (c *copies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.RLock()
	available, a := c.available, c.answers[r.URL.Path]
	nothing := len(c.answers) == 0
	c.mu.RUnlock()
	switch {
	case !available && r.URL.Path != openAPIV2Path, nothing:
		http.Error(w, "nothing is known of the server", http.StatusServiceUnavailable)
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

// fetching is one look at what a server says.
type fetching struct {
	client  *http.Client
	caller  *Caller
	service *apiregistrationv1.APIService
	*copies
}

// fetch asks for a document and keeps it. It returns nil if the server does
// not have it, and whether it is another than before.
func (f *fetching) fetch(ctx context.Context, path, accept string, bound time.Duration, user string, groups ...string) (*answer, bool, error) {
	ref := reference(f.service)
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	request, err := f.caller.request(ctx, f.service, path, user, groups...)
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("Accept", accept)
	known := f.get(path)
	if known != nil && known.etag != "" {
		request.Header.Set("If-None-Match", known.etag)
	}
	response, err := f.client.Do(request)
	if err != nil {
		return nil, false, describeWithin(bound, ref, path, err)
	}
	defer func() { _ = response.Body.Close() }() // read to the end or given up
	switch {
	case response.StatusCode == http.StatusNotModified && known != nil:
		return known, false, nil
	case response.StatusCode == http.StatusNotFound, response.StatusCode == http.StatusNotAcceptable:
		f.put(path, nil)
		return nil, known != nil, nil
	case response.StatusCode != http.StatusOK:
		return nil, false, fmt.Errorf("service %s answers %s with %s", ref, path, response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err != nil {
		return nil, false, describeWithin(bound, ref, path, err)
	}
	if len(body) > maxDocument {
		return nil, false, fmt.Errorf("service %s answers %s with more than %d bytes", ref, path, maxDocument)
	}
	a := &answer{contentType: response.Header.Get("Content-Type"), etag: response.Header.Get("Etag"), digest: sha256.Sum256(body), body: body}
	if known != nil && known.digest == a.digest {
		return known, false, nil
	}
	f.put(path, a)
	return a, true, nil
}

// discovery fetches all groups in one document, or the one group version from
// a server that does not have that.
func (f *fetching) discovery(ctx context.Context) error {
	a, _, err := f.fetch(ctx, groupsPath, discovery.AcceptV2+","+discovery.AcceptV2Beta1, checkTimeout, discoveryUser, user.SystemPrivilegedGroup)
	if err == nil && a != nil && strings.Contains(a.contentType, "g=apidiscovery.k8s.io") {
		return nil
	}
	// Upstream asks without the group then; the check of availability has it.
	_, _, err = f.fetch(ctx, discoveryPath(f.service), runtime.ContentTypeJSON, checkTimeout, discoveryUser, user.SystemPrivilegedGroup)
	return err
}

// openAPI fetches both versions and hands to the sinks what is new. A server
// that has only v2 gets v3 from that, as upstream does it.
func (f *fetching) openAPI(ctx context.Context, sinks Sinks) error {
	v3, changed, err := f.fetch(ctx, f.v3Path, runtime.ContentTypeJSON, openAPITimeout, openAPIUser)
	if err != nil {
		return err
	}
	if v3 != nil && changed {
		parsed := &spec3.OpenAPI{}
		if err := errors.Join(json.Unmarshal(v3.body, parsed), f.handV3(sinks.OpenAPIV3, parsed)); err != nil {
			f.put(f.v3Path, nil)
			return fmt.Errorf("read %s of service %s: %w", f.v3Path, reference(f.service), err)
		}
		f.put(f.v3Path, v3.read())
	}
	v2, changed, err := f.fetch(ctx, openAPIV2Path, runtime.ContentTypeJSON, openAPITimeout, openAPIUser)
	if err != nil {
		return err
	}
	if v2 != nil && changed {
		if err := f.handV2(sinks, v2.body, v3 == nil); err != nil {
			f.put(openAPIV2Path, nil)
			return fmt.Errorf("read %s of service %s: %w", openAPIV2Path, reference(f.service), err)
		}
		f.put(openAPIV2Path, v2.read())
	}
	f.withdraw(sinks, v2 != nil, v3 != nil)
	return nil
}

// handV3 gives the sink a new document.
func (f *fetching) handV3(sink openapiv3.SpecProxier, document *spec3.OpenAPI) error {
	f.v3.UpdateGroupVersion(strings.TrimPrefix(discoveryPath(f.service), "/"), document)
	sink.AddUpdateAPIService(f.v3Mux, f.service)
	f.inV3 = true
	return sink.UpdateAPIServiceSpec(f.service.Name)
}

// handV2 has the sink read a new document from the copy. One that it cannot
// read is not left with it: it would say so at each request.
func (f *fetching) handV2(sinks Sinks, body []byte, asV3 bool) error {
	if asV3 {
		swagger := &spec.Swagger{}
		if err := errors.Join(swagger.UnmarshalJSON(body), f.handV3(sinks.OpenAPIV3, openapiconv.ConvertV2ToV3(swagger))); err != nil {
			return err
		}
	}
	if err := sinks.OpenAPIV2.AddUpdateAPIService(f.service, f.copies); err != nil {
		return err
	}
	f.inV2 = true
	err := sinks.OpenAPIV2.UpdateAPIServiceSpec(f.service.Name)
	if err != nil {
		f.withdraw(sinks, false, true)
	}
	return err
}

// withdraw takes away what the server does not have any more.
func (f *fetching) withdraw(sinks Sinks, hasV2, hasV3 bool) {
	if f.inV2 && !hasV2 {
		sinks.OpenAPIV2.RemoveAPIService(f.service.Name)
		f.inV2 = false
	}
	if f.inV3 && !hasV2 && !hasV3 {
		sinks.OpenAPIV3.RemoveAPIServiceSpec(f.service.Name)
		f.inV3 = false
	}
}

// read is the answer without its body.
func (a *answer) read() *answer {
	return &answer{contentType: a.contentType, etag: a.etag, digest: a.digest}
}
