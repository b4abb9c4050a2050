package controllers

import (
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// boundTo returns a client configuration whose requests also end with ctx: clients of
// discovery take no context, and wait half a minute for a server that does not answer.
func boundTo(ctx context.Context, client *rest.Config) *rest.Config {
	client = rest.CopyConfig(client)
	client.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundTransport{ctx, next} })
	return client
}

type boundTransport struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t boundTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	unlink := context.AfterFunc(t.ctx, cancel)
	end := func() {
		unlink()
		cancel()
	}
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	response.Body = boundBody{response.Body, end}
	return response, nil
}

// boundBody is the body of a response whose context ends with Close.
type boundBody struct {
	io.ReadCloser
	end func()
}

// Close implements [io.Closer].
func (b boundBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
