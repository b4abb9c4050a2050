package planes

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// prefix is that of the paths of control planes.
const prefix = "/clusters/"

// infos reads what a request is about from its path.
var infos = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// serve serves the requests to control planes, and passes the others to the host.
func (m *Manager) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, prefix) {
		m.contests.note(nil)
		m.host.ServeHTTP(w, r)
		return
	}
	name, inner, ok := split(r)
	if !ok {
		refuse(w, r, http.StatusNotFound, metav1.StatusReasonNotFound,
			"the path is not that of a control plane: "+prefix+"NAME/...")
		return
	}
	moveToken(inner)
	p, err := m.plane(name)
	if errors.Is(err, errNotFound) && m.maySee(r, name) {
		p, err = m.awaitPlane(r.Context(), name)
	}
	if err == nil {
		err = p.serve(w, inner)
	}
	if err != nil {
		m.refuse(w, r, name, err)
	}
}

const (
	// madePoll is the interval at which awaitPlane looks for the control plane, at most for madeTimeout.
	madePoll    = 20 * time.Millisecond
	madeTimeout = 30 * time.Second
)

// awaitPlane returns the control plane of a ControlPlane once it is made, for example as a copy.
func (m *Manager) awaitPlane(ctx context.Context, name string) (p *plane, err error) {
	o, err := m.objects.Resource(Resource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, errNotFound
	case o.GetDeletionTimestamp() != nil:
		return nil, errDeleting
	}
	_ = wait.PollUntilContextTimeout(ctx, madePoll, madeTimeout, true, func(context.Context) (bool, error) {
		p, err = m.plane(name)
		return !errors.Is(err, errNotFound), nil
	})
	if errors.Is(err, errNotFound) {
		return nil, errNotMade
	}
	return p, err
}

// split returns the name of the control plane in the path, and the request that its server
// gets. It returns false for a path without a name, or with an encoded one.
func split(r *http.Request) (name string, inner *http.Request, ok bool) {
	cut := func(path string) (string, string) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(path, prefix), "/")
		return name, "/" + rest
	}
	name, path := cut(r.URL.Path)
	raw := ""
	if r.URL.RawPath != "" {
		if !strings.HasPrefix(r.URL.RawPath, prefix) {
			return "", nil, false
		}
		var encoded string
		if encoded, raw = cut(r.URL.RawPath); encoded != name {
			return "", nil, false
		}
	}
	if len(content.IsDNS1123Label(name)) > 0 {
		return "", nil, false
	}
	inner = r.WithContext(r.Context())
	inner.URL = &url.URL{Path: path, RawPath: raw, RawQuery: r.URL.RawQuery, Host: r.URL.Host, Scheme: r.URL.Scheme}
	inner.RequestURI = inner.URL.RequestURI()
	return name, inner, true
}

// serve answers a request with the control plane's server, or returns why it cannot.
func (p *plane) serve(w http.ResponseWriter, r *http.Request) error {
	mayWake := sync.OnceValue(func() bool { return p.mayWake(r) })
	if p.is(asleep) && !mayWake() {
		return errMayNotWake
	}
	info, err := infos.NewRequestInfo(r)
	watches := err == nil && info.Verb == "watch" && r.Method == http.MethodGet
	if watches && r.Header.Get("Upgrade") == "" && !strings.Contains(r.URL.Path, "/watch/") {
		return p.serveWatch(w, r, mayWake)
	}
	if !watches {
		if !p.enter() {
			w.Header().Set("Retry-After", "1")
			refuse(w, r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "the control plane has "+
				"planes.requestsInFlight requests; send fewer at a time, or raise it in the server's configuration")
			return nil
		}
		defer p.exit()
	}
	handler, done, err := p.use(r.Context(), mayWake)
	if err != nil {
		return err
	}
	defer done()
	if p.manager.contests.note(p) {
		end, err := handler.take(r.Context())
		if err != nil {
			return err
		}
		defer end()
	}
	handler.ServeHTTP(w, r)
	return nil
}

// refuse answers a request that no server has answered.
func (m *Manager) refuse(w http.ResponseWriter, r *http.Request, name string, err error) {
	gone, sleeps := errors.Is(err, errNotFound), errors.Is(err, errMayNotWake)
	switch {
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		return // the client has gone
	case (gone || sleeps || errors.Is(err, errNotMade)) && !m.maySee(r, name):
		refuse(w, r, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized") // as one that is awake
	case sleeps:
		refuse(w, r, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, err.Error())
	case gone:
		refuse(w, r, http.StatusNotFound, metav1.StatusReasonNotFound,
			"there is no control plane "+name+": kubectl get controlplanes lists them")
	default:
		if errors.Is(err, errNotRunning) {
			w.Header().Set("Retry-After", "1")
		} // else clients would try again for long before they show the reason
		reason := err.Error()
		if p, missing := m.plane(name); missing == nil && !p.hasSigned(r) && !m.maySee(r, name) {
			reason = "its administrator can see why" // the request waited for a start that another one began
		}
		refuse(w, r, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			"the control plane "+name+" is not available: "+reason)
	}
}

// maySee reports whether a user of the host may get the ControlPlane. Others do not learn which there
// are, except that those that are awake answer /healthz, /livez and /readyz.
func (m *Manager) maySee(r *http.Request, name string) bool {
	user, err := m.administrators.may(r, authorizer.AttributesRecord{Verb: "get", Name: name})
	return err == nil && user != ""
}

// refuse answers with a Status.
func refuse(w http.ResponseWriter, r *http.Request, code int32, reason metav1.StatusReason, message string) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
	responsewriters.ErrorNegotiated(&apierrors.StatusError{ErrStatus: status}, scheme.Codecs.WithoutConversion(),
		schema.GroupVersion{Version: "v1"}, w, r)
}
