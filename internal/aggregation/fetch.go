package aggregation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	openapiv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// fetching is one fetch of a server's documents.
type fetching struct {
	client  *http.Client
	caller  *Caller
	service *apiregistrationv1.APIService
	*documentCache
}

// fetch requests a document and stores it. It returns nil if the server does not have
// it. changed means that the document differs from the previous one.
func (f *fetching) fetch(ctx context.Context, path, accept string, timeout time.Duration, user string,
	groups ...string) (document *answer, changed bool, err error) {
	ref := reference(f.service)
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
		return nil, false, describe(timeout, ref, path, err)
	}
	defer func() { _ = response.Body.Close() }() // the error does not matter
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
		return nil, false, describe(timeout, ref, path, err)
	}
	if len(body) > maxDocument {
		return nil, false, fmt.Errorf("service %s answers %s with more than %d bytes", ref, path, maxDocument)
	}
	a := &answer{contentType: response.Header.Get("Content-Type"), etag: response.Header.Get("Etag"),
		digest: sha256.Sum256(body), body: body}
	if known != nil && known.digest == a.digest {
		a.body = known.body // nil if the sink has read it
		f.put(path, a)      // its ETag may be new
		return a, false, nil
	}
	f.put(path, a)
	return a, true, nil
}

// discovery fetches all groups in one document, or the one group version from
// a server that does not have that.
func (f *fetching) discovery(ctx context.Context) error {
	a, _, err := f.fetch(ctx, groupsPath, discovery.AcceptV2+","+discovery.AcceptV2Beta1, kube.CheckTimeout,
		kube.DiscoveryUser, user.SystemPrivilegedGroup)
	if err == nil && a != nil && strings.Contains(a.contentType, "g=apidiscovery.k8s.io") {
		return nil
	}
	// Upstream then requests the document of the group version; the check of
	// availability has it.
	_, _, err = f.fetch(ctx, kube.DiscoveryPath(f.service), runtime.ContentTypeJSON, kube.CheckTimeout,
		kube.DiscoveryUser, user.SystemPrivilegedGroup)
	return err
}

// openAPI fetches both versions and passes new documents to the sinks. The v3 document
// of a server that has only v2 is made from v2, as upstream does.
func (f *fetching) openAPI(ctx context.Context, sinks kube.OpenAPISinks) error {
	v3, changed, err := f.fetch(ctx, f.v3Path, runtime.ContentTypeJSON, kube.OpenAPITimeout, kube.OpenAPIUser)
	if err != nil {
		return err
	}
	if v3 != nil && changed {
		if err := guarded(func() error { return f.readV3(sinks.V3, v3.body) }); err != nil {
			f.put(f.v3Path, nil)
			return fmt.Errorf("read %s of service %s: %w", f.v3Path, reference(f.service), err)
		}
		f.put(f.v3Path, v3.withoutBody())
	}
	v2, changed, err := f.fetch(ctx, openAPIV2Path, runtime.ContentTypeJSON, kube.OpenAPITimeout, kube.OpenAPIUser)
	if err != nil {
		return err
	}
	if v2 != nil && changed {
		if err := guarded(func() error { return f.passV2(sinks, v2.body, v3 == nil) }); err != nil {
			f.put(openAPIV2Path, nil)
			return fmt.Errorf("read %s of service %s: %w", openAPIV2Path, reference(f.service), err)
		}
		f.put(openAPIV2Path, v2.withoutBody())
	}
	f.withdraw(sinks, v2 != nil, v3 != nil)
	return nil
}

// guarded calls read and returns a panic as an error: kube-openapi dereferences fields that
// a document may lack, such as the responses of an operation.
func guarded(read func() error) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("the document is malformed: %v", problem)
		}
	}()
	return read()
}

// readV3 passes a new document to the sink if it can be parsed.
func (f *fetching) readV3(sink openapiv3.SpecProxier, body []byte) error {
	document := &spec3.OpenAPI{}
	if err := json.Unmarshal(body, document); err != nil {
		return err
	}
	return f.passV3(sink, document)
}

// passV3 passes a new document to the sink.
func (f *fetching) passV3(sink openapiv3.SpecProxier, document *spec3.OpenAPI) error {
	f.v3.UpdateGroupVersion(strings.TrimPrefix(kube.DiscoveryPath(f.service), "/"), document)
	sink.AddUpdateAPIService(f.v3Mux, f.service)
	f.inV3 = true
	return sink.UpdateAPIServiceSpec(f.service.Name)
}

// passV2 has the sink read a new document from the copy. It removes one that the sink
// cannot read: the sink would log that at each request.
func (f *fetching) passV2(sinks kube.OpenAPISinks, body []byte, asV3 bool) error {
	if asV3 {
		swagger := &spec.Swagger{}
		if err := swagger.UnmarshalJSON(body); err != nil {
			return err
		}
		if err := f.passV3(sinks.V3, openapiconv.ConvertV2ToV3(swagger)); err != nil {
			return err
		}
	}
	if err := sinks.V2.AddUpdateAPIService(f.service, f.documentCache); err != nil {
		return err
	}
	f.inV2 = true
	err := sinks.V2.UpdateAPIServiceSpec(f.service.Name)
	if err != nil {
		f.withdraw(sinks, false, true)
	}
	return err
}

// withdraw removes the documents that the server does not have any more.
func (f *fetching) withdraw(sinks kube.OpenAPISinks, hasV2, hasV3 bool) {
	if f.inV2 && !hasV2 {
		sinks.V2.RemoveAPIService(f.service.Name)
		f.inV2 = false
	}
	if f.inV3 && !hasV2 && !hasV3 {
		sinks.V3.RemoveAPIServiceSpec(f.service.Name)
		f.inV3 = false
	}
}

// Caller sends requests of this process to the servers behind remote APIServices, as
// the aggregator's proxy sends those of users. It is safe for concurrent use.
type Caller struct {
	resolver *endpoints.Resolver
	dial     *transport.DialHolder // one: transports are cached by its address
	identity func() (certificate, key []byte, err error)
}

// NewCaller returns a Caller. dial is the Resolver's dialer, which the aggregator's
// proxy also uses; identity returns the current front-proxy certificate and key.
func NewCaller(resolver *endpoints.Resolver, dial utilnet.DialFunc,
	identity func() (certificate, key []byte, err error)) *Caller {
	return &Caller{resolver: resolver, dial: &transport.DialHolder{Dial: dial}, identity: identity}
}

// client is an HTTP client for the server of an APIService. It follows no redirects:
// the caBundle applies to this server only.
func (c *Caller) client(service *apiregistrationv1.APIService) (*http.Client, error) {
	certificate, key, err := c.identity()
	if err != nil {
		return nil, fmt.Errorf("read the front-proxy certificate: %w", err)
	}
	roundTripper, err := transport.New(remote.BuildTransportConfig(c.dial, certificate, key, service))
	if err != nil {
		return nil, fmt.Errorf("prepare TLS with the caBundle of APIService %s: %w", service.Name, err)
	}
	return &http.Client{
		Transport:     roundTripper,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// request is a GET of a path from the server of an APIService. The front-proxy
// certificate authenticates user and groups.
func (c *Caller) request(ctx context.Context, service *apiregistrationv1.APIService, path, user string,
	groups ...string) (*http.Request, error) {
	backend := service.Spec.Service
	location, err := c.resolver.Aggregator().ResolveEndpoint(backend.Namespace, backend.Name, *backend.Port)
	if err != nil {
		return nil, err
	}
	location.Path = path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
	if err != nil {
		return nil, err
	}
	transport.SetAuthProxyHeaders(request, user, "", groups, nil)
	return request, nil
}

// reference returns the `service:` reference of a remote APIService.
func reference(service *apiregistrationv1.APIService) endpoints.Reference {
	return endpoints.Reference{Namespace: service.Spec.Service.Namespace, Name: service.Spec.Service.Name}
}
