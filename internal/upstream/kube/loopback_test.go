package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/logs"
)

type contextKey struct{}

func serving(t *testing.T, handler http.HandlerFunc) *http.Client {
	t.Helper()
	l := NewLoopback(t.Context())
	l.Serve(handler)
	return &http.Client{Transport: l}
}

func TestLoopbackRequestAndResponse(t *testing.T) {
	client := serving(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Context().Value(contextKey{}) != nil {
			t.Error("the client's context values came along")
		}
		w.Header().Set("X-Method", r.Method)
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-Late", "not sent any more")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.RequestURI+" "+string(body)) // the client reads or the test fails
	})
	ctx := context.WithValue(t.Context(), contextKey{}, "secret")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://apiserver.invalid/api?x=1", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusCreated || response.Header.Get("X-Method") != "POST" || response.Header.Get("X-Late") != "" || string(body) != "/api?x=1 body" {
		t.Errorf("got %d %v %q", response.StatusCode, response.Header, body)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestLoopbackStreams(t *testing.T) {
	gone := make(chan struct{})
	client := serving(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		w.(http.Flusher).Flush()
		for _, event := range []string{"one", "two"} {
			if _, err := io.WriteString(w, event); err != nil {
				t.Error(err)
			}
		}
		<-r.Context().Done()
	})
	response, err := client.Get("https://apiserver.invalid/watch")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("onetwo"))
	if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != "onetwo" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := response.Body.Close(); err != nil { // ends the watch
		t.Error(err)
	}
	<-gone
}

func TestLoopbackEndsWithItsClient(t *testing.T) {
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	client := serving(t, func(w http.ResponseWriter, r *http.Request) {
		cancel()
		w.WriteHeader(http.StatusGatewayTimeout) // as the API server's handler answers
		<-r.Context().Done()
		close(gone)
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://apiserver.invalid/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(request); !errors.Is(err, context.Canceled) {
		t.Errorf("it said: %v", err)
	}
	<-gone
}

func TestLoopbackWaitsForTheChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLoopback(t.Context())
		client := &http.Client{Transport: l}
		answered := make(chan error, 1)
		go func() {
			response, err := client.Get("https://apiserver.invalid/")
			if err == nil {
				err = response.Body.Close()
			}
			answered <- err
		}()
		synctest.Wait() // it is waiting
		l.Serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		if err := <-answered; err != nil {
			t.Error(err)
		}
	})
	never := &http.Client{Transport: NewLoopback(t.Context())}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://apiserver.invalid/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := never.Do(request); !errors.Is(err, context.Canceled) {
		t.Errorf("without a chain it said: %v", err)
	}
}

func TestLoopbackSurvivesAPanic(t *testing.T) {
	client := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half") // the client reads or the test fails
		panic(http.ErrAbortHandler)
	})
	response, err := client.Get("https://apiserver.invalid/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if string(body) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v", body, err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}

// TestLoopbackStops: a request to a stopped server gets an error, not an answer that clients retry.
func TestLoopbackStops(t *testing.T) {
	loopback := NewLoopback(t.Context())
	loopback.Serve(http.NotFoundHandler())
	loopback.Stop()
	response, err := (&http.Client{Transport: loopback}).Get(LoopbackHost)
	if err == nil {
		t.Fatalf("a stopped server answered %s", response.Status)
	}
	if !strings.Contains(err.Error(), "has stopped") || !logs.HarmlessKubernetes(err.Error()) {
		t.Errorf("the error is %v, which the log takes for a defect", err)
	}
}

// TestLoopbackOfUnreadBodies: an answer whose client does not read its body ends: to HEAD at once, any
// other when the grace of a stop is over.
func TestLoopbackOfUnreadBodies(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	loopback := NewLoopback(over)
	written := make(chan error)
	loopback.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, "body")
		written <- err
	}))
	client := &http.Client{Transport: loopback}
	if _, err := client.Head(LoopbackHost); err != nil { //nolint:bodyclose // as programs do
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("HEAD: %v", err)
	}
	if _, err := client.Get(LoopbackHost); err != nil { //nolint:bodyclose // as programs do
		t.Fatal(err)
	}
	end()
	if err := <-written; err == nil {
		t.Error("a body that was not read was written")
	}
}
