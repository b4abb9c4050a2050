package apiserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// drained serves handler on a port, through a drain.
func drained(t *testing.T, handler http.HandlerFunc) (*drain, *httptest.Server) {
	t.Helper()
	return drainedOver(t, false, handler)
}

// drainedOver is drained over HTTP/2, with TLS, or over HTTP/1.1.
func drainedOver(t *testing.T, http2 bool, handler http.HandlerFunc) (*drain, *httptest.Server) {
	t.Helper()
	d := newDrain(legacyscheme.Codecs)
	inner := d.recordRequests(handler)
	server := httptest.NewUnstartedServer(d.endAfterGrace(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := &request.RequestInfo{Verb: r.URL.Query().Get("verb")}
		inner.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), info)))
	})))
	if server.EnableHTTP2 = http2; http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return d, server
}

func body(t *testing.T, response *http.Response) string {
	t.Helper()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // it was read
	return string(content)
}

// TestDrainCutsRequests: a request without an answer gets an error with the reason, and
// its context ends.
func TestDrainCutsRequests(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan error, 1)
	d, server := drained(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Mine", "1")
		close(arrived)
		<-r.Context().Done()
		_, err := w.Write([]byte("late"))
		ended <- err
	})
	go func() {
		<-arrived
		d.end()
	}()
	response, err := http.Get(server.URL + "?verb=get")
	if err != nil {
		t.Fatal(err)
	}
	if text := body(t, response); response.StatusCode != http.StatusGatewayTimeout || !strings.Contains(text, "the server is stopping") || strings.Contains(text, "late") {
		t.Errorf("the answer is %s: %s", response.Status, text)
	}
	if err := <-ended; err == nil {
		t.Error("the handler could still write")
	}
}

// TestDrainKeepsTheAnswer: the answer of an ended request arrives as a whole, also if
// upstream's timeout filter aborts the response.
func TestDrainKeepsTheAnswer(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			d, server := drainedOver(t, http2, func(_ http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			})
			go func() {
				<-arrived
				d.end()
			}()
			response, err := server.Client().Get(server.URL + "?verb=get")
			if err != nil {
				t.Fatal(err)
			}
			if text := body(t, response); response.Proto != name || response.StatusCode != http.StatusGatewayTimeout || !strings.Contains(text, "the server is stopping") {
				t.Errorf("the answer is %s %s: %s", response.Proto, response.Status, text)
			}
		})
	}
}

// TestDrainKeepsWatches: a long-running request continues.
func TestDrainKeepsWatches(t *testing.T) {
	arrived, goOn := make(chan struct{}), make(chan struct{})
	d, server := drained(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-goOn
		if r.Context().Err() != nil {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	go func() {
		<-arrived
		d.end()
		close(goOn)
	}()
	response, err := http.Get(server.URL + "?verb=watch")
	if err != nil {
		t.Fatal(err)
	}
	if text := body(t, response); response.StatusCode != http.StatusOK {
		t.Errorf("the answer is %s: %s", response.Status, text)
	}
}

// TestDrainKeepsResponses: what a handler writes arrives as it is.
func TestDrainKeepsResponses(t *testing.T) {
	_, server := drained(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Mine", "1")
		w.WriteHeader(http.StatusCreated)
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "made") // the test checks the response
	})
	response, err := http.Post(server.URL+"?verb=create", "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	if text := body(t, response); response.StatusCode != http.StatusCreated || text != "made" || response.Header.Get("X-Mine") != "1" {
		t.Errorf("the answer is %s, %v: %s", response.Status, response.Header, text)
	}
	_, server = drained(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Mine", "2") })
	if response, err = http.Get(server.URL); err != nil {
		t.Fatal(err)
	}
	if text := body(t, response); response.StatusCode != http.StatusOK || text != "" || response.Header.Get("X-Mine") != "2" {
		t.Errorf("without a body the answer is %s, %v: %s", response.Status, response.Header, text)
	}
}
