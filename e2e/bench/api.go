package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// api is a client with a connection of its own. It sends and returns JSON
// without decoding it.
type api struct {
	server string
	http   *http.Client
	user   string // the user to impersonate; empty for none
}

func newAPI(config *rest.Config) (*api, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	return &api{
		server: config.Host,
		http:   &http.Client{Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}},
	}, nil
}

// newAPIs makes n clients and connects them.
func newAPIs(ctx context.Context, config *rest.Config, n int) ([]*api, error) {
	clients := make([]*api, 0, n)
	for range n {
		client, err := newAPI(config)
		if err == nil {
			clients = append(clients, client)
			err = client.discard(ctx, http.MethodGet, "/version", nil)
		}
		if err != nil {
			closeAll(clients)
			return nil, err
		}
	}
	return clients, nil
}

// close gives the connection back.
func (a *api) close() { a.http.CloseIdleConnections() }

func closeAll(clients []*api) {
	for _, client := range clients {
		client.close()
	}
}

// statusError is an answer that is not a success.
type statusError struct {
	code    int
	request string
	text    string
	// retryAfter is when to send the request again; 0 if the response has no Retry-After.
	retryAfter time.Duration
}

// Error implements error.
func (e *statusError) Error() string { return fmt.Sprintf("%s: %d %s", e.request, e.code, e.text) }

// accept gets a path in the given media type.
func (a *api) accept(ctx context.Context, path, mediaType string) ([]byte, error) {
	return whole(a.exchange(ctx, http.MethodGet, path, mediaType, "", nil))
}

// apply makes an object by server-side apply.
func (a *api) apply(ctx context.Context, d definition, name string) error {
	return a.patch(ctx, d.path(crdNamespace)+"/"+name+"?fieldManager=bench", "application/apply-patch+yaml", d.object(name))
}

// patch sends a patch of the media type.
func (a *api) patch(ctx context.Context, path, mediaType string, body []byte) error {
	_, err := whole(a.exchange(ctx, http.MethodPatch, path, anyMediaType, mediaType, body))
	return err
}

const anyMediaType = "application/json, */*"

// open sends a request and returns a successful answer, whose body the caller
// closes. target is a path, or a URL for a server that is not the API server.
func (a *api) open(ctx context.Context, method, target string, body []byte) (*http.Response, error) {
	return a.exchange(ctx, method, target, anyMediaType, "application/json", body)
}

// exchange is open with the media types of the answer and of the body.
func (a *api) exchange(ctx context.Context, method, target, accept, contentType string, body []byte) (*http.Response, error) {
	if strings.HasPrefix(target, "/") {
		target = a.server + target
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, target, err)
	}
	request.Header.Set("Accept", accept)
	if a.user != "" {
		request.Header.Set("Impersonate-User", a.user)
	}
	if body != nil {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := a.http.Do(request)
	if err != nil {
		return nil, err // names method and URL
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // the status is the error
	_ = response.Body.Close()                                  // nothing more is wanted from it
	// Kubernetes sends seconds; without the header there is nothing to wait for.
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return nil, &statusError{response.StatusCode, method + " " + target, string(text), time.Duration(seconds) * time.Second}
}

// whole returns the body of a successful answer.
func whole(response *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read to the end or given up
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s %s: %w", response.Request.Method, response.Request.URL, err)
	}
	return text, nil
}

// do sends a request and returns the body of a successful answer.
func (a *api) do(ctx context.Context, method, target string, body []byte) ([]byte, error) {
	return whole(a.open(ctx, method, target, body))
}

// discard is do without the answer's body.
func (a *api) discard(ctx context.Context, method, target string, body []byte) error {
	response, err := a.open(ctx, method, target, body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read to the end or given up
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, target, err)
	}
	return nil
}

// retried sends a request again that a server has put off (429). kube-apiserver
// does so while it fills the watch cache of a type.
func retried(ctx context.Context, send func() error) error {
	return retriedAfter(ctx, send, func(*statusError) time.Duration { return poll })
}

// retriedLater is retried after the time that the server names, as clients of Kubernetes
// do.
func retriedLater(ctx context.Context, send func() error) error {
	return retriedAfter(ctx, send, func(refused *statusError) time.Duration { return max(poll, refused.retryAfter) })
}

func retriedAfter(ctx context.Context, send func() error, delay func(*statusError) time.Duration) error {
	for {
		err := send()
		var status *statusError
		if !errors.As(err, &status) || status.code != http.StatusTooManyRequests {
			return err
		}
		if err := pause(ctx, delay(status)); err != nil {
			return err
		}
	}
}

// watch is an open watch.
type watch struct {
	body   io.ReadCloser
	events *bufio.Reader
}

// watch opens a watch; query follows the question mark.
func (a *api) watch(ctx context.Context, path, query string) (*watch, error) {
	response, err := a.open(ctx, http.MethodGet, path+"?watch=1&"+query, nil)
	if err != nil {
		return nil, err
	}
	return &watch{response.Body, bufio.NewReader(response.Body)}, nil
}

// next waits for an event and returns its line of JSON.
func (w *watch) next() ([]byte, error) {
	line, err := w.events.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return line, nil
}

// awaitDeleted returns when n objects have been deleted.
func (w *watch) awaitDeleted(n int) error {
	for n > 0 {
		line, err := w.next()
		if err != nil {
			return fmt.Errorf("%d objects are not deleted yet: %w", n, err)
		}
		switch {
		case bytes.HasPrefix(line, []byte(`{"type":"DELETED"`)):
			n--
		case bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)):
			return fmt.Errorf("%d objects are not deleted yet: %s", n, line)
		}
	}
	return nil
}

// close ends the watch.
func (w *watch) close() { _ = w.body.Close() } // the connection is the client's
