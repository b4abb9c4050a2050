package apiserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestHalfSentBody: the connection of a client that does not send the rest of a body is closed
// after the timeout of the request; that of a command, which has none, after a time of its own.
func TestHalfSentBody(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"a write": "/", "a command": OwnPrefix + "backup"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := endBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if path != "/" {
					if _, err := io.Copy(io.Discard, r.Body); err == nil {
						t.Error("the body is complete")
					}
				} else {
					go func() { _, _ = io.Copy(io.Discard, r.Body) }() // as upstream's handler, which the timeout filter leaves
					<-r.Context().Done()
				}
				w.WriteHeader(http.StatusGatewayTimeout)
			}), 50*time.Millisecond)
			expectClosed(t, path, inner)
		})
	}
}

// TestRefusedBody: a body that is not sent to its end does not keep the connection of a refused
// request; one that is not refused may take longer.
func TestRefusedBody(t *testing.T) {
	t.Parallel()
	connection := &deadlines{}
	send := func(h http.Handler) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("body"))
		r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{Verb: "watch"}))
		endRefusedBodies(h).ServeHTTP(connection, r)
	}
	if send(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})); connection.last == nil || connection.last.IsZero() {
		t.Error("a refused request has no deadline")
	}
	if send(endBodies(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), 0)); !connection.last.IsZero() {
		t.Error("a long-running request has a deadline")
	}
}

// TestSlowWrite: the body of a write that the limits read may take as long as its request.
func TestSlowWrite(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*http.Request{
		"a body that is measured":      httptest.NewRequestWithContext(t.Context(), http.MethodPatch, configMapsPath+"/a", nil),
		"a body that the server reads": httptest.NewRequestWithContext(t.Context(), http.MethodPost, configMapsPath, nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection := &deadlines{ResponseWriter: httptest.NewRecorder()}
			ctx, cancel := context.WithTimeout(asUser(t.Context(), "alice"), time.Hour)
			defer cancel()
			r := r.WithContext(request.WithRequestInfo(ctx, requestInfo(t, r)))
			r.ContentLength = 4
			read := false
			r.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
				read = true
				if until := time.Until(*connection.last); until < 50*time.Minute {
					t.Errorf("the rest of the body has %s", until)
				}
				return copy(p, "null"), io.EOF
			}))
			endRefusedBodies(newTestLimits(testLimits).handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					t.Error(err)
				}
			}))).ServeHTTP(connection, r)
			if !read {
				t.Error("nothing has read the body")
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestBodyOfACommand: the request of a command goes on for longer than its body may take.
func TestBodyOfACommand(t *testing.T) {
	t.Parallel()
	connection := &deadlines{}
	body := &commandBody{io.NopCloser(strings.NewReader("body")), connection}
	if _, err := io.Copy(io.Discard, body); err != nil || connection.last == nil || !connection.last.IsZero() {
		t.Errorf("the deadline after the body is %v: %v", connection.last, err)
	}
}

// deadlines records the last deadline.
type deadlines struct {
	http.ResponseWriter
	last *time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.last = &t
	return nil
}

// expectClosed sends half of a body, and fails unless the server closes the connection.
func expectClosed(t *testing.T, path string, inner http.Handler) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := request.WithRequestInfo(r.Context(), &request.RequestInfo{Verb: "create", Path: path})
		if path == "/" {
			timeout, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			ctx = timeout
		}
		inner.ServeHTTP(w, r.WithContext(ctx))
	}))
	defer server.CloseClientConnections()
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	if err := client.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
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
