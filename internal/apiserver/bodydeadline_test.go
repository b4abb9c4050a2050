package apiserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestHalfSentBody: the connection of a client that does not send the rest of a body is closed
// after the timeout of the request.
func TestHalfSentBody(t *testing.T) {
	t.Parallel()
	inner := endBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() { _, _ = io.Copy(io.Discard, r.Body) }() // as upstream's handler, which the timeout filter leaves
		<-r.Context().Done()
		w.WriteHeader(http.StatusGatewayTimeout)
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(request.WithRequestInfo(r.Context(), &request.RequestInfo{Verb: "create"}), 50*time.Millisecond)
		defer cancel()
		inner.ServeHTTP(w, r.WithContext(ctx))
	}))
	defer server.CloseClientConnections()
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	if err := client.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(client)
	response, err := http.ReadResponse(reader, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("the connection is open: %v", err)
	}
}
