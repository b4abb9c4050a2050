package console

import (
	"crypto/rand"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// apiPrefix is the path of the API server for the page.
const apiPrefix = "/k8s"

// built is the application as `make console` has built it.
//
//go:embed web/dist
var built embed.FS

// handler answers the browser.
type handler struct {
	sessions *sessions
	hosts    []string // values of the Host header that name this console
	log      *slog.Logger
	mux      *http.ServeMux
	index    string
	context  string // of the kubeconfig, shown by the page
	// address returns the address with an unused token.
	address func() string
}

// newHandler returns the handler of a console that listens on the port of
// loopback and speaks to the API server of the configuration.
func newHandler(config *rest.Config, contextName string, port int, log *slog.Logger) (*handler, error) {
	files, err := fs.Sub(built, "web/dist")
	if err != nil {
		return nil, fmt.Errorf("read the embedded application: %w", err)
	}
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return nil, fmt.Errorf("read the embedded application: %w", err)
	}
	forward, err := newForward(config, log)
	if err != nil {
		return nil, err
	}
	h := &handler{
		sessions: newSessions(port), log: log, index: string(index), context: contextName,
		hosts: []string{fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("localhost:%d", port)},
		mux:   http.NewServeMux(),
	}
	h.address = func() string { return fmt.Sprintf("http://127.0.0.1:%d/?token=%s", port, h.sessions.unused()) }
	h.mux.Handle(apiPrefix+"/", h.authenticated(http.StripPrefix(apiPrefix, forward)))
	h.mux.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServerFS(files)))
	h.mux.HandleFunc("GET /{$}", h.page)
	return h, nil
}

// ServeHTTP implements [http.Handler]. It refuses requests that another site or
// another name of the address has sent: DNS rebinding and cross-site requests.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(h.hosts, r.Host) {
		http.Error(w, fmt.Sprintf("the host %q is not this console's", r.Host), http.StatusMisdirectedRequest)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		http.Error(w, "requests from other sites are refused", http.StatusForbidden)
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); strings.HasPrefix(r.URL.Path, apiPrefix) && site != "" && site != "same-origin" {
		http.Error(w, "requests from other sites are refused", http.StatusForbidden)
		return
	}
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Content-Security-Policy", "default-src 'none'")
	h.mux.ServeHTTP(w, r)
}

// page serves the application. An address with a token starts a session and is
// replaced by the one without.
func (h *handler) page(w http.ResponseWriter, r *http.Request) {
	if token := r.URL.Query().Get("token"); token != "" && !h.sessions.allows(r) {
		if !h.sessions.begin(w, token) {
			h.refuse(w)
			return
		}
	}
	if r.URL.RawQuery != "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if !h.sessions.allows(r) {
		h.refuse(w)
		return
	}
	nonce := rand.Text()
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-"+nonce+
		"'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	page := strings.NewReplacer("{{nonce}}", nonce, "{{context}}", attribute(h.context)).Replace(h.index)
	_, _ = w.Write([]byte(page)) // a client that is gone has no use for an error
}

// refuse answers a browser without a session, and prints an address for the
// next one on the terminal.
func (h *handler) refuse(w http.ResponseWriter) {
	h.log.Info("a browser without a valid token was refused; a new address: " + h.address())
	http.Error(w, "This address has been used or has expired. The terminal of `kube-hyper-mini console` shows a new one.", http.StatusUnauthorized)
}

// authenticated answers 401 to requests without a session.
func (h *handler) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.sessions.allows(r) {
			w.Header().Set("X-Console-Session", "expired") // the API server answers 401 as well
			http.Error(w, "the session of this page has ended", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// newForward returns the proxy to the API server. The browser's credentials and
// impersonation do not reach it: its requests have the kubeconfig's rights.
func newForward(config *rest.Config, log *slog.Logger) (http.Handler, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server %s: %w", config.Host, err)
	}
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server %q: %w", config.Host, err)
	}
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // watches
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host, Path: strings.TrimSuffix(target.Path, "/")})
			for name := range r.Out.Header {
				if strings.HasPrefix(name, "Impersonate-") || name == "Cookie" || name == "Authorization" || name == "Origin" {
					r.Out.Header.Del(name)
				}
			}
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Set-Cookie")
			// What an object or an aggregated server returns is never a page of this origin.
			r.Header.Set("Content-Disposition", "attachment")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return // the page has left
			}
			log.Debug("the API server does not answer", "url", r.URL.Path, "error", err)
			http.Error(w, "the API server does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}, nil
}

// attribute escapes a value for an attribute of the page.
func attribute(value string) string {
	return strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "{", "&#123;").Replace(value)
}

// listen opens a port of loopback.
func listen(port int) (net.Listener, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("listen for the browser on port %d of 127.0.0.1: %w; choose another with --port", port, err)
	}
	return listener, nil
}
