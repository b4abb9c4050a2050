package planes

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/responsewriter"
)

// adminSubresource is the subresource of a ControlPlane whose update makes a user of the host
// an administrator of the control plane.
const adminSubresource = "admin"

// administrators knows which users of the host may administer its control planes. It asks the
// host's API with the credentials of the request.
type administrators struct {
	manager *Manager
	known   *cache.Expiring // the answers to questions
	// accepted has the credentials that the host has accepted for a control plane.
	accepted *cache.LRUExpireCache
}

const (
	answerLife = 5 * time.Second
	askTimeout = 10 * time.Second
	trustPoll  = 5 * time.Second
	// acceptedLife is longer than a watch.
	acceptedLife = 24 * time.Hour
	acceptedKept = 4096
)

func newAdministrators(m *Manager) *administrators {
	return &administrators{m, cache.NewExpiring(), cache.NewLRUExpireCache(acceptedKept)}
}

// of authenticates the host's users that may update the subresource admin of the ControlPlane.
// In the control plane they are named host:NAME.
func (a *administrators) of(plane string) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name, err := a.may(r, authorizationv1.ResourceAttributes{Verb: "update", Subresource: adminSubresource, Name: plane})
		if err != nil || name == "" {
			return nil, false, err
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: "host:" + name,
			Groups: []string{user.SystemPrivilegedGroup}}}, true, nil
	})
}

// endUntrusted ends the watches of control planes whose client certificate is one that the host
// has accepted and does not accept any more, as the host does with its own watches.
func (a *administrators) endUntrusted(context.Context) {
	watches := map[*tls.ConnectionState][]*watcher{}
	for _, p := range a.manager.list() {
		p.mu.Lock()
		for x := range p.watches {
			if state := x.request.TLS; state != nil && len(state.PeerCertificates) > 0 {
				watches[state] = append(watches[state], x)
			}
		}
		p.mu.Unlock()
	}
	for _, list := range watches {
		if _, ok := a.accepted.Get(string(credentialOf(list[0].request))); !ok {
			continue // it is one of the control plane, which ends its watches itself
		}
		name, err := a.whoIs(list[0].request)
		if err != nil || name != "" {
			continue // the host answers when it can
		}
		for _, x := range list {
			x.cancel()
		}
	}
}

// may returns the name of the host's user who sends the request, if it has credentials of the
// host, and the host's authorizer allows the action on ControlPlanes; else "".
func (a *administrators) may(r *http.Request, action authorizationv1.ResourceAttributes) (string, error) {
	credential := credentialOf(r)
	if credential == nil {
		return "", nil
	}
	key := fmt.Sprintf("%x %s %s %s", credential, action.Verb, action.Subresource, action.Name)
	if name, ok := a.known.Get(key); ok {
		return name.(string), nil
	}
	action.Group, action.Version, action.Resource = Resource.Group, Resource.Version, Resource.Resource
	name, err := a.ask(r, action)
	if err == nil && name != "" {
		a.accepted.Add(string(credential), name, acceptedLife)
	}
	if err == nil {
		a.known.Set(key, name, answerLife)
	}
	return name, err
}

func (a *administrators) ask(r *http.Request, action authorizationv1.ResourceAttributes) (string, error) {
	access := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &action}}
	access.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"))
	if ok, err := a.post(r, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", access); !ok ||
		err != nil || !access.Status.Allowed {
		return "", err
	}
	return a.whoIs(r)
}

// whoIs returns the name of the host's user who sends the request; "" if the host accepts no
// credentials of it.
func (a *administrators) whoIs(r *http.Request) (string, error) {
	self := &authenticationv1.SelfSubjectReview{}
	self.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"))
	if ok, err := a.post(r, "/apis/authentication.k8s.io/v1/selfsubjectreviews", self); !ok || err != nil {
		return "", err
	}
	if self.Status.UserInfo.Username == user.Anonymous {
		return "", nil
	}
	return self.Status.UserInfo.Username, nil
}

// post sends a review to the host with the credentials of the request and nothing else of it,
// and reads the answer into review. It returns false if the host refuses the user.
func (a *administrators) post(r *http.Request, path string, review any) (bool, error) {
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	// without the values of the other server's request
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	asked.Host, asked.RemoteAddr, asked.TLS, asked.RequestURI = r.Host, r.RemoteAddr, r.TLS, path
	asked.Header.Set("Content-Type", "application/json")
	asked.Header.Set("Accept", "application/json")
	if token := r.Header.Get("Authorization"); token != "" {
		asked.Header.Set("Authorization", token)
	}
	answer := responsewriter.NewInMemoryResponseWriter()
	a.manager.host.ServeHTTP(answer, asked)
	switch code := answer.RespCode(); code {
	case http.StatusCreated:
		return true, json.Unmarshal(answer.Data(), review)
	case http.StatusUnauthorized, http.StatusForbidden:
		return false, nil
	default:
		return false, fmt.Errorf("ask the host who the user is: it answered %d: %s", code, answer.Data())
	}
}
