package apiserver

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// serveLimited serves with the limits until the test ends, and returns the address.
func serveLimited(t *testing.T, perAddress int) string {
	t.Helper()
	limits := newConnectionLimits(testListener(t).Listener, config.Limits{ConnectionsPerAddress: perAddress, LargestHeader: resource.MustParse("64Ki")}, slog.New(slog.DiscardHandler))
	server := &http.Server{Handler: limits.limitHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})), MaxHeaderBytes: 1 << 20}
	go func() { _ = server.Serve(limits) }()
	t.Cleanup(func() { _ = server.Close() })
	return limits.Addr().String()
}

func TestConnectionsPerAddress(t *testing.T) {
	t.Parallel()
	address := serveLimited(t, 2)
	get := func() error {
		client := &http.Client{Transport: &http.Transport{}}
		response, err := client.Get("http://" + address)
		if err == nil {
			err = response.Body.Close()
			t.Cleanup(client.CloseIdleConnections)
		}
		return err
	}
	for i := range 2 {
		if err := get(); err != nil {
			t.Fatalf("connection %d: %v", i+1, err)
		}
	}
	if err := get(); err == nil {
		t.Error("a third connection of one address is served")
	}
}

// TestLargeHeader: a request with a large header, or a large query, is refused with the field that
// allows it.
func TestLargeHeader(t *testing.T) {
	t.Parallel()
	address := serveLimited(t, 0)
	for name, size := range map[string]int{"within the bound": 50_000, "above it": 70_000} {
		for _, inQuery := range []bool{false, true} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, nil)
			if err != nil {
				t.Fatal(err)
			}
			if inQuery {
				request.URL.RawQuery = strings.Repeat("q", size)
			} else {
				request.Header.Set("X-A", strings.Repeat("h", size))
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil {
				t.Fatal(err)
			}
			refused := response.StatusCode == http.StatusRequestHeaderFieldsTooLarge && strings.Contains(string(text), "limits.largestHeader")
			if refused != (size > 64<<10) {
				t.Errorf("%s, in the query %v: answered %d: %s", name, inQuery, response.StatusCode, text)
			}
		}
	}
}

// TestUnfinishedHeaders: the server reads some 384 KiB of a header, and bodies of any size.
func TestUnfinishedHeaders(t *testing.T) {
	t.Parallel()
	address := serveLimited(t, 0)
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("x", 3<<20)
	for range 2 { // on one connection
		response, err := http.Post("http://"+address, "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(response.Body); err != nil || len(answer) != len(body) {
			t.Errorf("%d bytes of a body arrived: %v", len(answer), err)
		}
		_ = response.Body.Close()
	}
	if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: a\r\n"); err != nil {
		t.Fatal(err)
	}
	line := "X-A: " + strings.Repeat("a", 4000) + "\r\n"
	go func() {
		for range 225 { // 900 kB
			if _, err := io.WriteString(connection, line); err != nil {
				return // the server has closed the connection
			}
		}
	}()
	// The server closes the connection while the header is not complete.
	if _, err := io.ReadAll(connection); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
}

// TestRestOfRefusedBodies: the rest of bodies of HTTP/2 that were refused does not end their
// connection, which other clients use.
func TestRestOfRefusedBodies(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	defer func() { _ = client.Close() }()
	connection := &limitedConnection{Conn: server, most: idleRead, forget: func() {}}
	const refused = 4
	connection.requests.Add(refused)
	for range refused {
		connection.ended(&http.Request{ProtoMajor: 2, ContentLength: 1 << 20})
	}
	go func() {
		for range refused + 3 {
			_, _ = client.Write(make([]byte, idleRead)) // fails when the connection is closed
		}
	}()
	piece := make([]byte, idleRead)
	for i := range refused + 1 {
		if _, err := io.ReadFull(connection, piece); err != nil {
			t.Fatalf("piece %d: %v", i, err)
		}
	}
	if _, err := io.ReadFull(connection, make([]byte, 2*idleRead)); !errors.Is(err, errHeaderTooLarge) {
		t.Errorf("what follows the bodies: %v", err)
	}
	_ = connection.Close()
}
