package aggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// sink replaces both of upstream's OpenAPI aggregators: it calls the handler
// when it is triggered, and records the answers.
type sink struct {
	path string

	mu       sync.Mutex
	handlers map[string]http.Handler
	heard    map[string]string
}

func newSink(path string) *sink {
	return &sink{path: path, handlers: map[string]http.Handler{}, heard: map[string]string{}}
}

func (s *sink) add(name string, handler http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[name] = handler
}

func (s *sink) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handlers, name)
	delete(s.heard, name)
}

// UpdateAPIServiceSpec implements both.
func (s *sink) UpdateAPIServiceSpec(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	recorder := httptest.NewRecorder()
	s.handlers[name].ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, s.path, nil))
	if recorder.Code != http.StatusOK || strings.Contains(recorder.Body.String(), "garbage") {
		return fmt.Errorf("%d %s", recorder.Code, recorder.Body)
	}
	s.heard[name] = recorder.Body.String()
	return nil
}

func (s *sink) of(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[name]
}

type sinkV2 struct{ *sink }

func (s sinkV2) AddUpdateAPIService(service *apiregistrationv1.APIService, handler http.Handler) error {
	s.add(service.Name, handler)
	return nil
}
func (s sinkV2) RemoveAPIService(name string) { s.remove(name) }

type sinkV3 struct{ *sink }

func (s sinkV3) AddUpdateAPIService(handler http.Handler, service *apiregistrationv1.APIService) {
	s.add(service.Name, handler)
}
func (s sinkV3) RemoveAPIServiceSpec(name string) { s.remove(name) }
func (s sinkV3) GetAPIServiceNames() []string     { return nil }

const (
	legacyDiscovery = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get"]}]}`
	openAPIv3       = `{"openapi":"3.0.0","info":{"title":"t","version":"v1"},"paths":{"/apis/example.com/v1/things":{}}}`
	openAPIv2       = `{"swagger":"2.0","info":{"title":"t","version":"v1"},"paths":{}}`
)

// world is a Documents with a remote server whose answers a test sets.
type world struct {
	t         *testing.T
	client    *fake.Clientset
	documents *Documents
	discovery aggregated.ResourceManager
	v2, v3    *sink

	mu      sync.Mutex
	answers map[string]string
	etag    string          // of all answers; empty for none
	sent    map[string]bool // the values of If-None-Match that requests had
	count   map[string]int  // of requests, by path
}

const apiService = "v1.example.com"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldWithoutOpenAPI(t)
	w.buildOpenAPI()
	return w
}

func (w *world) buildOpenAPI() {
	w.documents.OpenAPIBuilt(kube.OpenAPISinks{V2: sinkV2{w.v2}, V3: sinkV3{w.v3}})
}

func newWorldWithoutOpenAPI(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, client: fake.NewClientset(), discovery: aggregated.NewResourceManager("apis"), v2: newSink(openAPIV2Path), v3: newSink(openAPIV3Path),
		answers: map[string]string{"/apis/example.com/v1": legacyDiscovery, "/openapi/v3/apis/example.com/v1": openAPIv3, openAPIV2Path: openAPIv2},
		sent:    map[string]bool{}, count: map[string]int{},
	}
	server := httptest.NewUnstartedServer(w)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	r, err := endpoints.New([]config.ServiceEndpoint{{Namespace: "ns", Name: "svc", Targets: []string{server.URL}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	caller := NewCaller(r, r.Dialer(endpoints.Direct()), func() ([]byte, []byte, error) { return nil, nil, nil })
	factory := informers.NewSharedInformerFactory(w.client, 0)
	documents, err := NewDocuments(caller, factory.Apiregistration().V1().APIServices(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w.documents = documents
	ctx, cancel := context.WithCancel(context.Background())
	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	discovery := aggregatorapiserver.NewDiscoveryManager(w.discovery)
	running.Go(func() { documents.Run(ctx, discovery) })
	<-documents.Listed()
	running.Go(func() { discovery.Run(ctx.Done(), nil) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	return w
}

// ServeHTTP is the remote server.
func (w *world) ServeHTTP(response http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	answer, etag := w.answers[r.URL.Path], w.etag
	w.sent[r.Header.Get("If-None-Match")] = true
	w.count[r.URL.Path]++
	w.mu.Unlock()
	if answer == "" {
		http.NotFound(response, r)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	response.Header().Set("Etag", etag)
	_, _ = io.WriteString(response, answer) // the test notices an incomplete response
}

// requests returns the number of requests for a path.
func (w *world) requests(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[path]
}

// set replaces answers; "" removes one.
func (w *world) set(answers map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, answer := range answers {
		w.answers[path] = answer
	}
}

// register creates or changes the APIService.
func (w *world) register(available apiregistrationv1.ConditionStatus) {
	w.t.Helper()
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: apiService},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "example.com", Version: "v1", InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "svc", Port: ptr.To[int32](443)},
		},
		Status: apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: available}}},
	}
	client := w.client.ApiregistrationV1().APIServices()
	if _, err := client.Create(w.t.Context(), service, metav1.CreateOptions{}); err == nil {
		return
	}
	if _, err := client.Update(w.t.Context(), service, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes the APIService and waits until discovery has it no more.
func (w *world) remove() {
	w.t.Helper()
	if err := w.client.ApiregistrationV1().APIServices().Delete(w.t.Context(), apiService, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the group is gone", w.isFresh(""))
}

func (w *world) eventually(what string, check func() bool) {
	w.t.Helper()
	for range 3000 {
		if check() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("not in time: %s", what)
}

// freshness of the only group version in the merged discovery, and its types.
func (w *world) freshness() (string, []string) {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/apis", nil)
	request.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	w.discovery.ServeHTTP(recorder, request)
	list, err := decodeDiscovery(recorder.Body.Bytes())
	if err != nil {
		w.t.Fatal(err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	version := list.Items[0].Versions[0]
	var names []string
	for _, resource := range version.Resources {
		names = append(names, resource.Resource)
	}
	return string(version.Freshness), names
}

func (w *world) isFresh(want string) func() bool {
	return func() bool { got, _ := w.freshness(); return got == want }
}

func TestDocumentsReachTheSinks(t *testing.T) {
	w := newWorld(t)
	w.register(apiregistrationv1.ConditionTrue)
	w.eventually("discovery has the type", func() bool {
		freshness, names := w.freshness()
		return freshness == "Current" && slices.Equal(names, []string{"things"})
	})
	w.eventually("OpenAPI v2 and v3 are known", func() bool {
		return w.v2.of(apiService) == openAPIv2 && strings.Contains(w.v3.of(apiService), "/openapi/v3/apis/example.com/v1")
	})

	w.register(apiregistrationv1.ConditionFalse)
	w.eventually("the group is stale", w.isFresh("Stale"))
	if w.v2.of(apiService) == "" || w.v3.of(apiService) == "" {
		t.Error("OpenAPI of a server that is away is forgotten")
	}

	w.remove()
	w.eventually("OpenAPI is gone", func() bool { return w.v2.of(apiService) == "" && w.v3.of(apiService) == "" })
}

// TestDiscoveryBeforeOpenAPIIsBuilt: discovery follows the APIServices while no client has
// requested OpenAPI, and OpenAPI has the servers when one does.
func TestDiscoveryBeforeOpenAPIIsBuilt(t *testing.T) {
	w := newWorldWithoutOpenAPI(t)
	for range 2 {
		w.register(apiregistrationv1.ConditionFalse)
		w.eventually("the group of a server that is down is stale", w.isFresh("Stale"))
		w.remove()
	}
	for range 2 {
		w.register(apiregistrationv1.ConditionTrue)
		w.eventually("discovery is current", w.isFresh("Current"))
		w.register(apiregistrationv1.ConditionFalse)
		w.eventually("the group is stale", w.isFresh("Stale"))
	}
	w.register(apiregistrationv1.ConditionTrue)
	w.eventually("the server that is back is current", w.isFresh("Current"))
	if w.requests(openAPIV2Path) != 0 {
		t.Error("OpenAPI is fetched before it is used")
	}
	w.buildOpenAPI()
	w.eventually("OpenAPI v2 and v3 are known", func() bool { return w.v2.of(apiService) != "" && w.v3.of(apiService) != "" })
}

// TestNewETagOfTheSameDocument: the next request has the new one, so that the server need
// not send the document again.
func TestNewETagOfTheSameDocument(t *testing.T) {
	w := newWorld(t)
	for _, etag := range []string{`"1"`, `"2"`} {
		w.mu.Lock()
		w.etag = etag
		w.mu.Unlock()
		w.register(apiregistrationv1.ConditionTrue)
		w.eventually("requests have the ETag "+etag, func() bool {
			w.documents.loop.Add(apiService)
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.sent[etag]
		})
	}
}

func TestOnlyV2AndUnreadableDocuments(t *testing.T) {
	w := newWorld(t)
	w.set(map[string]string{"/openapi/v3/apis/example.com/v1": ""})
	w.register(apiregistrationv1.ConditionTrue)
	w.eventually("v3 is made of v2", func() bool { return w.v2.of(apiService) != "" && w.v3.of(apiService) != "" })
	w.set(map[string]string{openAPIV2Path: "garbage", "/openapi/v3/apis/example.com/v1": openAPIv3})
	w.register(apiregistrationv1.ConditionUnknown)
	w.register(apiregistrationv1.ConditionTrue)
	w.eventually("what cannot be read is not left with the sink", func() bool { return w.v2.of(apiService) == "" })
	if w.v3.of(apiService) == "" {
		t.Error("v3 was taken away with v2")
	}
}

// TestMalformedDocument: a document on which kube-openapi panics is unreadable, and the
// process continues.
func TestMalformedDocument(t *testing.T) {
	w := newWorld(t)
	withoutResponses := strings.Replace(openAPIv2, `"paths":{}`, `"paths":{"/apis/example.com/v1/things":{"get":{}}}`, 1)
	w.set(map[string]string{"/openapi/v3/apis/example.com/v1": "", openAPIV2Path: withoutResponses})
	w.register(apiregistrationv1.ConditionTrue)
	w.eventually("the document is requested again", func() bool { return w.requests(openAPIV2Path) > 1 })
	w.set(map[string]string{openAPIV2Path: openAPIv2})
	w.eventually("a later document is read", func() bool {
		w.documents.loop.Add(apiService)
		return w.v2.of(apiService) != "" && w.v3.of(apiService) != ""
	})
}

func TestUnknownDocumentsAreUnavailable(t *testing.T) {
	service := &apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Group: "example.com", Version: "v1"}}
	service.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue}}
	c := newDocumentCache(service)
	recorder := httptest.NewRecorder()
	if c.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, groupsPath, nil)); recorder.Code != http.StatusServiceUnavailable {
		t.Errorf("the sink hears %d", recorder.Code)
	}
	if err := describe(time.Minute, ref, openAPIV2Path, context.DeadlineExceeded); !strings.Contains(err.Error(), "1m0s") {
		t.Errorf("the bound is not said: %v", err)
	}
}

func decodeDiscovery(data []byte) (list apidiscoveryv2.APIGroupDiscoveryList, err error) {
	err = json.Unmarshal(data, &list)
	return list, err
}
