package openapi

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// definitions is a [Source] of definitions in memory, listed without schemas.
type definitions struct {
	mu     sync.Mutex
	whole  []*apiextensionsv1.CustomResourceDefinition
	broken error // of Get
	reads  atomic.Int64
	lists  atomic.Int64
	// changes counts the changes of whole.
	changes atomic.Uint64
}

func (d *definitions) Changes() uint64 { return d.changes.Load() }

func (d *definitions) List() []*apiextensionsv1.CustomResourceDefinition {
	d.lists.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	var light []*apiextensionsv1.CustomResourceDefinition
	for _, definition := range d.whole {
		definition = definition.DeepCopy()
		for i := range definition.Spec.Versions {
			definition.Spec.Versions[i].Schema = nil
		}
		light = append(light, definition)
	}
	return light
}

func (d *definitions) Get(_ context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	d.reads.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return nil, d.broken
	}
	i := slices.IndexFunc(d.whole, func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Name == name })
	if i < 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, name)
	}
	return d.whole[i].DeepCopy(), nil
}

func definition(kind, group string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	plural := strings.ToLower(kind) + "s"
	c := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, UID: types.UID("uid-of-" + plural), Generation: 1},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural, Singular: strings.ToLower(kind)},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}},
		},
	}
	c.Status.AcceptedNames = c.Spec.Names
	for i, version := range versions {
		c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
					Type: "object", Description: "the spec of a " + kind,
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("3")}}},
				}},
			}},
		})
	}
	return c
}

// others serves documents of types that are no custom resources.
func others(t *testing.T) http.Handler {
	t.Helper()
	paths := mux.NewPathRecorderMux("others")
	v3 := handler3.NewOpenAPIService()
	v3.UpdateGroupVersion("apis/other.example.com/v1", &spec3.OpenAPI{Version: "3.0.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "others"}}})
	if err := v3.RegisterOpenAPIV3VersionedService(v3Path, paths); err != nil {
		t.Fatal(err)
	}
	handler.NewOpenAPIService(&spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0",
		Info:    &spec.Info{InfoProps: spec.InfoProps{Title: "others", Version: "v1"}},
		Paths:   &spec.Paths{Paths: map[string]spec.PathItem{"/apis/other.example.com/v1/": {}}},
		Definitions: spec.Definitions{
			"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {SchemaProps: spec.SchemaProps{Description: "of the others"}},
		},
	}}).RegisterOpenAPIVersionedService(v2Path, paths)
	return paths
}

func newTestHandler(t *testing.T, source Source) http.Handler {
	t.Helper()
	return NewHandler(others(t), source, "v1", slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func get(t *testing.T, h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var value T
	if w.Code != http.StatusOK {
		t.Fatalf("answered %d: %s", w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return value
}

func documentURL(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	return decode[handler3.OpenAPIV3Discovery](t, get(t, h, v3Path)).Paths[path].ServerRelativeURL
}

func TestIndexListsEstablishedVersions(t *testing.T) {
	notServed := definition("Gadget", "example.com", "v1", "v2")
	notServed.Spec.Versions[1].Served = false
	notEstablished := definition("Secret", "hidden.example.com", "v1")
	notEstablished.Status.Conditions = nil
	h := newTestHandler(t, &definitions{whole: []*apiextensionsv1.CustomResourceDefinition{
		definition("Widget", "example.com", "v1"), notServed, notEstablished, definition("Taken", "other.example.com", "v1"),
	}})
	list := decode[handler3.OpenAPIV3Discovery](t, get(t, h, v3Path))
	if len(list.Paths) != 2 || list.Paths["apis/example.com/v1"].ServerRelativeURL == "" {
		t.Errorf("listed %v", list.Paths)
	}
	// The document of a group version that another server serves is that server's.
	if w := get(t, h, list.Paths["apis/other.example.com/v1"].ServerRelativeURL); !strings.Contains(w.Body.String(), "others") {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
	if w := get(t, h, v3Path+"/apis/hidden.example.com/v1"); w.Code != http.StatusOK && w.Body.Len() > 0 {
		t.Errorf("a definition that is not established has a document: %d: %s", w.Code, w.Body)
	}
}

func TestV3DescribesAllDefinitionsOfTheGroupVersion(t *testing.T) {
	source := &definitions{whole: []*apiextensionsv1.CustomResourceDefinition{
		definition("Widget", "example.com", "v1", "v2"), definition("Gadget", "example.com", "v1"), definition("Thing", "elsewhere.example.com", "v1"),
	}}
	h := newTestHandler(t, source)
	w := get(t, h, documentURL(t, h, "apis/example.com/v1"))
	if w.Header().Get("Cache-Control") != "public, immutable" {
		t.Errorf("headers are %v", w.Header())
	}
	document := decode[spec3.OpenAPI](t, w)
	for _, name := range []string{"com.example.v1.Widget", "com.example.v1.GadgetList", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"} {
		if document.Components.Schemas[name] == nil {
			t.Errorf("schema %s is missing", name)
		}
	}
	if document.Components.Schemas["com.example.elsewhere.v1.Thing"] != nil || document.Components.Schemas["com.example.v2.Widget"] != nil {
		t.Error("another group version is in the document")
	}
	if document.Paths.Paths["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"] == nil {
		t.Errorf("paths are %v", document.Paths.Paths)
	}
	if source.reads.Load() != 2 {
		t.Errorf("read %d definitions for a document of 2", source.reads.Load())
	}

	message := get(t, h, v3Path+"/apis/example.com/v1", "Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
	decoded := &openapi_v3.Document{}
	if err := proto.Unmarshal(message.Body.Bytes(), decoded); err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, schema := range decoded.GetComponents().GetSchemas().GetAdditionalProperties() {
		names[schema.GetName()]++
	}
	if len(names) != len(document.Components.Schemas) || len(decoded.GetPaths().GetPath()) != len(document.Paths.Paths) {
		t.Errorf("protobuf has %d schemas and %d paths, JSON %d and %d", len(names), len(decoded.GetPaths().GetPath()), len(document.Components.Schemas), len(document.Paths.Paths))
	}
	for name, count := range names {
		if count > 1 {
			t.Errorf("protobuf has schema %s %d times", name, count)
		}
	}
}

func TestV2AddsToTheOtherTypes(t *testing.T) {
	h := newTestHandler(t, &definitions{whole: []*apiextensionsv1.CustomResourceDefinition{definition("Widget", "example.com", "v1", "v2"), definition("Gadget", "example.com", "v1")}})
	w := get(t, h, v2Path)
	document := decode[spec.Swagger](t, w)
	if document.Info.Title != "others" || document.Definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].Description != "of the others" {
		t.Errorf("the other types' parts are %v, %v", document.Info, document.Definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"])
	}
	for _, name := range []string{"com.example.v1.Widget", "com.example.v2.Widget", "com.example.v1.Gadget", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions_v2"} {
		if _, ok := document.Definitions[name]; !ok && !strings.HasSuffix(name, "_v2") {
			t.Errorf("definition %s is missing", name)
		} else if ok && strings.HasSuffix(name, "_v2") {
			t.Errorf("%s is there twice", name)
		}
	}
	size := document.Definitions["com.example.v1.Widget"].Properties["spec"].Properties["size"]
	if size.Default != nil {
		t.Error("a default was not pruned, as upstream prunes it")
	}
	for _, path := range []string{"/apis/other.example.com/v1/", "/apis/example.com/v2/namespaces/{namespace}/widgets"} {
		if _, ok := document.Paths.Paths[path]; !ok {
			t.Errorf("path %s is missing", path)
		}
	}
	if len(document.Parameters) == 0 {
		t.Error("there are no parameters")
	}

	message := get(t, h, v2Path, "Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
	decoded := &openapi_v2.Document{}
	if err := proto.Unmarshal(message.Body.Bytes(), decoded); err != nil {
		t.Fatal(err)
	}
	if decoded.GetInfo().GetTitle() != "others" || len(decoded.GetDefinitions().GetAdditionalProperties()) != len(document.Definitions) || len(decoded.GetPaths().GetPath()) != len(document.Paths.Paths) {
		t.Errorf("protobuf is %q with %d definitions and %d paths, JSON has %d and %d", decoded.GetInfo().GetTitle(),
			len(decoded.GetDefinitions().GetAdditionalProperties()), len(decoded.GetPaths().GetPath()), len(document.Definitions), len(document.Paths.Paths))
	}
}

func TestChangedDefinitionHasANewDocument(t *testing.T) {
	source := &definitions{whole: []*apiextensionsv1.CustomResourceDefinition{definition("Widget", "example.com", "v1")}}
	h := newTestHandler(t, source)
	before, v2 := documentURL(t, h, "apis/example.com/v1"), get(t, h, v2Path).Header().Get("Etag")
	get(t, h, before)

	changed := definition("Widget", "example.com", "v1")
	changed.Generation = 2
	changed.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{Type: "object", Description: "another spec"}
	source.mu.Lock()
	source.whole = []*apiextensionsv1.CustomResourceDefinition{changed}
	source.mu.Unlock()
	source.changes.Add(1)

	after := documentURL(t, h, "apis/example.com/v1")
	if w := get(t, h, before); before == after || w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != after {
		t.Errorf("the document of hash %s is answered with %d %s", before, w.Code, w.Header().Get("Location"))
	}
	if w := get(t, h, after); !strings.Contains(w.Body.String(), "another spec") {
		t.Error("the document is the old one")
	}
	if w := get(t, h, v2Path); w.Header().Get("Etag") == v2 || !strings.Contains(w.Body.String(), "another spec") {
		t.Error("the v2 document is the old one")
	}
}

func TestUnchangedDocumentIsNotSent(t *testing.T) {
	source := &definitions{whole: []*apiextensionsv1.CustomResourceDefinition{definition("Widget", "example.com", "v1")}}
	for _, path := range []string{v2Path, v3Path, v3Path + "/apis/example.com/v1"} {
		etag := get(t, newTestHandler(t, source), path).Header().Get("Etag")
		reads := source.reads.Load()
		// Another server on the same store has not built it.
		w := get(t, newTestHandler(t, source), path, "If-None-Match", etag)
		if w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s with ETag %s is answered with %d and %d bytes", path, etag, w.Code, w.Body.Len())
		}
		if source.reads.Load() != reads {
			t.Errorf("%s was built again", path)
		}
	}
}

func TestCompression(t *testing.T) {
	h := newTestHandler(t, &definitions{whole: []*apiextensionsv1.CustomResourceDefinition{definition("Widget", "example.com", "v1")}})
	plain := get(t, h, v2Path)
	for accept, want := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "br": false, "": false} {
		w := get(t, h, v2Path, "Accept-Encoding", accept)
		body := io.Reader(w.Body)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("Accept-Encoding %q: compressed is %v", accept, got)
		} else if got {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		if data, err := io.ReadAll(body); err != nil || string(data) != plain.Body.String() {
			t.Errorf("Accept-Encoding %q: %d bytes, %v; want %d", accept, len(data), err, plain.Body.Len())
		}
	}
}

func TestFailedBuildIsNotKept(t *testing.T) {
	source := &definitions{whole: []*apiextensionsv1.CustomResourceDefinition{definition("Widget", "example.com", "v1")}, broken: fmt.Errorf("etcd is away")}
	h := newTestHandler(t, source)
	for _, path := range []string{v2Path, v3Path + "/apis/example.com/v1"} {
		if w := get(t, h, path); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "etcd is away") {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
	source.mu.Lock()
	source.broken = nil
	source.mu.Unlock()
	for _, path := range []string{v2Path, v3Path + "/apis/example.com/v1"} {
		if w := get(t, h, path); w.Code != http.StatusOK {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
}

// stuck is a [Source] that reads definitions when release is closed.
type stuck struct {
	*definitions
	release chan struct{}
}

func (s stuck) Get(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	select {
	case <-s.release:
		return s.definitions.Get(ctx, name)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestBuildsHaveDeadlines: a build goes on without its client. One that cannot read ends, and
// the next one succeeds.
func TestBuildsHaveDeadlines(t *testing.T) {
	for _, path := range []string{v2Path, v3Path + "/apis/example.com/v1"} {
		synctest.Test(t, func(t *testing.T) {
			source := stuck{&definitions{whole: []*apiextensionsv1.CustomResourceDefinition{definition("Widget", "example.com", "v1")}}, make(chan struct{})}
			h := newTestHandler(t, source)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
			if w.Code != http.StatusServiceUnavailable || time.Since(start) != readTimeout {
				t.Errorf("%s: %d: %s after %s, want an error after %s", path, w.Code, w.Body, time.Since(start), readTimeout)
			}
			close(source.release)
			if w := get(t, h, path); w.Code != http.StatusOK {
				t.Errorf("%s: %d: %s", path, w.Code, w.Body)
			}
		})
	}
}

// TestAbandonedBuildsDoNotBegin: builds whose client has gone while they wait for others, as those
// of a user who requests all documents, do not delay those of others.
func TestAbandonedBuildsDoNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &definitions{whole: []*apiextensionsv1.CustomResourceDefinition{definition("Widget", "example.com", "v1")}}
		h := NewHandler(others(t), source, "v1", slog.New(slog.DiscardHandler))
		path := v3Path + "/apis/example.com/v1"
		h.building <- struct{}{} // another document
		ctx, cancel := context.WithCancel(t.Context())
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		synctest.Wait()
		answered := make(chan *httptest.ResponseRecorder, 1)
		go func() { answered <- get(t, h, path) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if reads := source.reads.Load(); reads > 0 {
			t.Errorf("%d definitions were read", reads)
		}
		<-h.building
		if w := <-answered; w.Code != http.StatusOK { // it has waited for the build of the other
			t.Errorf("answered %d: %s", w.Code, w.Body)
		}
	})
}

func TestUnknownMediaType(t *testing.T) {
	h := newTestHandler(t, &definitions{whole: []*apiextensionsv1.CustomResourceDefinition{definition("Widget", "example.com", "v1")}})
	for _, path := range []string{v2Path, v3Path + "/apis/example.com/v1"} {
		if w := get(t, h, path, "Accept", "text/html"); w.Code != http.StatusNotAcceptable {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestIndexAfterWaitingForOthers: at a start, the documents of the others come after the definitions.
func TestIndexAfterWaitingForOthers(t *testing.T) {
	source := &definitions{}
	base := others(t)
	h := NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		source.mu.Lock()
		source.whole = append(source.whole, definition("Widget", "example.com", "v1"))
		source.mu.Unlock()
		source.changes.Add(1)
		base.ServeHTTP(w, r)
	}), source, "v1", slog.New(slog.NewTextHandler(t.Output(), nil)))
	if documentURL(t, h, "apis/example.com/v1") == "" {
		t.Error("the index does not list a definition that came while it waited")
	}
}
