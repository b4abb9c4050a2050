package apiserver

import (
	"io"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// TestRemoteAnswers: a client in this process, and no other, gets a part only of an answer
// of an aggregated API server that does not end.
func TestRemoteAnswers(t *testing.T) {
	services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for name, service := range map[string]*apiregistrationv1.ServiceReference{"v1.remote.example": {Name: "svc", Namespace: "ns"}, "v1.local.example": nil} {
		object := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiregistrationv1.APIServiceSpec{Service: service}}
		if err := services.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	const size = maxRemoteAnswer + 2<<20
	b := &builder{Server: &Server{}}
	b.remote.services = listers.NewAPIServiceLister(services)
	limited := b.limitRemote(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, 1<<20)
		for written := 0; written < size; written += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				panic(http.ErrAbortHandler) // as the proxy does
			}
		}
	}))
	group := ""
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIGroup: group, APIVersion: "v1", Resource: "things"}
		limited.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), info)))
	})
	loopback := kube.NewLoopback(t.Context())
	loopback.Serve(handler)
	for _, test := range []struct {
		group    string
		loopback bool
		complete bool
	}{{"remote.example", true, false}, {"remote.example", false, true}, {"local.example", true, true}, {"", true, true}} {
		group = test.group
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://host/", nil)
		if err != nil {
			t.Fatal(err)
		}
		var read int64
		if test.loopback {
			answer, err := loopback.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			read, _ = io.Copy(io.Discard, answer.Body) // an error means that the answer is not complete
		} else {
			w := &discarding{header: http.Header{}}
			handler.ServeHTTP(w, r)
			read = w.written
		}
		if complete := read == size; complete != test.complete || read == 0 {
			t.Errorf("%q by loopback %v: %d of %d bytes", test.group, test.loopback, read, size)
		}
	}
}

// discarding counts what is written to a client on the network.
type discarding struct {
	header  http.Header
	written int64
}

func (d *discarding) Header() http.Header { return d.header }
func (d *discarding) WriteHeader(int)     {}
func (d *discarding) Write(p []byte) (int, error) {
	d.written += int64(len(p))
	return len(p), nil
}
