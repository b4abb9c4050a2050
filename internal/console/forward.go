package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
)

// serverHeader is set when the kubeconfig does not accept the API server's certificate:
// another server answers.
const serverHeader = "X-Console-Server"

// forwarded are the headers of the API server's answers that reach the page. No
// other header may change what the browser does with this origin.
var forwarded = map[string]bool{
	"Audit-Id": true, "Content-Encoding": true, "Content-Length": true, "Content-Type": true, "Date": true,
	"Etag": true, "Last-Modified": true, "Retry-After": true, "Vary": true, "Warning": true,
}

// newForward returns the proxy to the API server. The browser's credentials and
// impersonation do not reach it: its requests have the kubeconfig's rights.
func newForward(options Options) (http.Handler, error) {
	transport, err := rest.TransportFor(options.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server %s: %w", options.Config.Host, err)
	}
	target, _, err := rest.DefaultServerUrlFor(options.Config)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server %q: %w", options.Config.Host, err)
	}
	proxy := &httputil.ReverseProxy{
		Transport:     finalAnswers{transport},
		FlushInterval: -1, // watches
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host, Path: strings.TrimSuffix(target.Path, "/")})
			for name := range r.Out.Header {
				switch {
				case strings.HasPrefix(name, "Impersonate-"), strings.HasPrefix(name, "X-Remote-"),
					name == "Cookie", name == "Authorization", name == "Origin", name == keyHeader:
					r.Out.Header.Del(name)
				}
			}
		},
		ModifyResponse: restrict,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			switch {
			case errors.Is(r.Context().Err(), context.DeadlineExceeded):
				expired(w)
				return
			case r.Context().Err() != nil:
				return // the page was closed
			}
			options.Log.Debug("the API server does not answer", "url", r.URL.Path, "error", err)
			var untrusted *tls.CertificateVerificationError
			if errors.As(err, &untrusted) {
				w.Header().Set(serverHeader, "untrusted")
				http.Error(w, fmt.Sprintf("the certificate of the API server %s is not that of the kubeconfig: %v",
					target.Host, untrusted.Err),
					http.StatusBadGateway)
				return
			}
			http.Error(w, "the API server does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			http.Error(w, "the console does not forward connections that change their protocol", http.StatusNotImplemented)
			return
		}
		proxy.ServeHTTP(w, r)
	}), nil
}

// finalAnswers hides informational answers (1xx) from the proxy, which forwards them
// and then clears all headers, also those that restrict the browser.
type finalAnswers struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (f finalAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.RoundTripper.RoundTrip(r.WithContext(withoutValues{r.Context()}))
}

// withoutValues is a context that ends with another one. The proxy's hook for
// informational answers is a value.
type withoutValues struct{ context.Context }

// Value implements [context.Context].
func (withoutValues) Value(any) any { return nil }

// restrict removes headers that make a browser do more than read the answer: an
// aggregated API server may send any.
func restrict(r *http.Response) error {
	if r.StatusCode == http.StatusSwitchingProtocols {
		// The proxy would give the connection to the API server.
		return errors.New("it changes the protocol of the connection without a request for that")
	}
	for name := range r.Header {
		if !forwarded[name] {
			r.Header.Del(name)
		}
	}
	r.Header.Set("Content-Disposition", "attachment")
	return nil
}
