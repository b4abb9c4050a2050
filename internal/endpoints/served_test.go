package endpoints

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// handlerTransport calls the handler without a connection.
type handlerTransport struct{ handler http.HandlerFunc }

// RoundTrip implements [http.RoundTripper].
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.handler(w, r)
	return w.Result(), nil
}

// TestTypeThatIsNotServed: it is requested rarely, and that is logged once.
func TestTypeThatIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		requests := 0
		handler := func(w http.ResponseWriter, _ *http.Request) {
			requests++
			http.Error(w, "not served", http.StatusNotFound)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := awaitServed(ctx, &rest.Config{Host: "https://apiserver.invalid", Transport: handlerTransport{handler}}, slog.New(slog.NewTextHandler(&log, nil)))
		if err == nil || requests < 100 || requests > 1000 {
			t.Errorf("%d requests in a minute: %v", requests, err)
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "not served") {
			t.Errorf("the log is\n%s", text)
		}
	})
}
