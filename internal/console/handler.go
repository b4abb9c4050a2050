package console

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// apiPrefix is the path of the API server for the page.
	apiPrefix = "/k8s"
	// sessionPath takes the token from the file that opens the browser.
	sessionPath = "/session"
	// planePath is that of a control plane of the server: of its page, and of its API below apiPrefix.
	planePath = "/clusters/{plane}"
)

// built is the application as `make console` has built it.
//
//go:embed web/dist
var built embed.FS

// handler answers the browser.
type handler struct {
	Options
	sessions *sessions
	host     string // the only value of the Host header that names this console
	mux      *http.ServeMux
	index    string
}

// newHandler returns the handler of a console that listens on the port of loopback. Its
// name is a new one at each run: a server that has used the port before, also one of
// another user, has left no service worker in the browser for it.
func newHandler(options Options, port int) (*handler, error) {
	files, err := fs.Sub(built, "web/dist")
	if err != nil {
		return nil, fmt.Errorf("read the embedded application: %w", err)
	}
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return nil, fmt.Errorf("read the embedded application: %w", err)
	}
	forward, err := newForward(options)
	if err != nil {
		return nil, err
	}
	h := &handler{
		Options: options, sessions: newSessions(time.Now), index: string(index),
		host: fmt.Sprintf("%s.localhost:%d", strings.ToLower(rand.Text()), port), mux: http.NewServeMux(),
	}
	api := h.authenticated(http.StripPrefix(apiPrefix, forward))
	h.mux.Handle(apiPrefix+"/", api)
	h.mux.Handle(apiPrefix+planePath+"/", ofPlane(api))
	h.mux.Handle("GET /assets/", cached(http.StripPrefix("/assets/", http.FileServerFS(files))))
	h.mux.HandleFunc("POST "+sessionPath, func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
		h.enter(w, r.PostFormValue("token"))
	})
	h.mux.HandleFunc("GET /{$}", h.page)
	h.mux.Handle("GET "+planePath, ofPlane(http.HandlerFunc(h.page)))
	h.mux.HandleFunc("GET "+enterScriptPath, enterScript)
	return h, nil
}

// ServeHTTP implements [http.Handler]. It refuses requests that another site or
// another name of the address has sent: DNS rebinding and cross-site requests.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cache-Control", "no-store")
	if r.Host != h.host {
		header.Set(sessionHeader, "expired") // a page of the console that ran before on this port
		http.Error(w, fmt.Sprintf("The host %q is not that of this console. The terminal of `kube-hyper-mini console` "+
			"shows its address.", r.Host),
			http.StatusMisdirectedRequest)
		return
	}
	if !sameOrigin(r) {
		http.Error(w, "requests from other sites are refused", http.StatusForbidden)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// sameOrigin reports whether a page of this console has sent the request, or the user
// opens the console, which needs a token or a session.
func sameOrigin(r *http.Request) bool {
	entry := r.URL.Path == "/" || r.URL.Path == sessionPath
	origin := r.Header.Get("Origin")
	// null: a local file
	if origin != "" && origin != "http://"+r.Host && !(origin == "null" && r.URL.Path == sessionPath) {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin":
		return true
	case "none": // the address bar, or a program that opened the address
		return !strings.HasPrefix(r.URL.Path, apiPrefix)
	}
	return entry && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// page serves the application. An address with a token starts a session.
func (h *handler) page(w http.ResponseWriter, r *http.Request) {
	known := h.sessions.of(r) != nil
	if token := r.URL.Query().Get("token"); token != "" && !known {
		h.enter(w, token)
		return
	}
	if !known {
		h.refuse(w)
		return
	}
	if r.URL.RawQuery != "" {
		writeEntry(w, "")
		return
	}
	nonce := rand.Text()
	assets := "http://" + r.Host + "/assets/"
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src "+assets+
		"; style-src "+assets+" 'nonce-"+nonce+
		"'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page := strings.NewReplacer("{{nonce}}", nonce, "{{context}}", attribute(h.Context), "{{namespace}}",
		attribute(h.Namespace)).Replace(h.index)
	_, _ = w.Write([]byte(page)) // a client that is gone has no use for an error
}

// ofPlane refuses paths whose part is not the name of a control plane.
func ofPlane(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("plane"); len(validation.IsDNS1123Label(name)) > 0 {
			http.Error(w, fmt.Sprintf("%q is not the name of a ControlPlane", name), http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// enter starts a session with the token and leads to the application. Nothing that
// the browser has stored for this address stays.
func (h *handler) enter(w http.ResponseWriter, token string) {
	key, ok := h.sessions.begin(w, token)
	if !ok {
		h.refuse(w)
		return
	}
	w.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	writeEntry(w, key)
}

// refuse answers a browser without a session. The log shows an address with an unused
// token, once for each token, so that refused requests do not fill the log.
func (h *handler) refuse(w http.ResponseWriter) {
	if address, first := h.address(); first {
		h.Log.Info("a browser without a valid token was refused; a new address: " + address)
	}
	http.Error(w, "This address has been used or has expired. The terminal of `kube-hyper-mini console` shows a new one.",
		http.StatusUnauthorized)
}

// address returns the address with an unused token, and whether it is new.
func (h *handler) address() (address string, first bool) {
	token, first := h.sessions.announce()
	return "http://" + h.host + "/?token=" + token, first
}

// authenticated answers 401 to requests without a session, and cancels requests at the
// end of their session.
func (h *handler) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := h.sessions.of(r)
		if found == nil || !found.hasKey(r) {
			expired(w)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), found.ends.Sub(h.sessions.now()))
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// expired tells the page that its session has ended; the API server answers 401
// as well, without the header.
func expired(w http.ResponseWriter) {
	w.Header().Set(sessionHeader, "expired")
	http.Error(w, "the session of this page has ended", http.StatusUnauthorized)
}

// cached lets browsers keep files that are named by their content.
func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		next.ServeHTTP(w, r)
	})
}

// attribute escapes a value for an attribute of a page.
func attribute(value string) string {
	return strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "{", "&#123;").Replace(value)
}
