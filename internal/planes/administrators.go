package planes

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// adminSubresource is the subresource of a ControlPlane whose update makes a user of the host
// an administrator of the control plane.
const adminSubresource = "admin"

// administrators knows which users of the host may administer its control planes. It asks the
// host's authenticator and authorizer, with the credentials of the request.
type administrators struct {
	manager *Manager
	users   authenticator.Request // of the host, set before it serves
	rights  authorizer.Authorizer // set with users
	known   *cache.Expiring       // the answers to questions
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
	return &administrators{manager: m, known: cache.NewExpiring(), accepted: cache.NewLRUExpireCache(acceptedKept)}
}

// of authenticates the host's users that may update the subresource admin of the ControlPlane.
// In the control plane they are named host:NAME.
func (a *administrators) of(plane string) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name, err := a.may(r, authorizer.AttributesRecord{Verb: "update", Subresource: adminSubresource, Name: plane})
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
		ctx, end := askContext(list[0].request)
		requester, err := a.whoIs(ctx, list[0].request)
		end()
		if err != nil || requester != nil {
			continue // the host answers when it can
		}
		for _, x := range list {
			x.cancel()
		}
	}
}

// use is given the access to the host, before it serves.
func (a *administrators) use(users authenticator.Request, rights authorizer.Authorizer) {
	a.users, a.rights = users, rights
}

// may returns the name of the host's user who sends the request, if it has credentials of the
// host, and the host's authorizer allows the action on ControlPlanes; else "".
func (a *administrators) may(r *http.Request, action authorizer.AttributesRecord) (string, error) {
	credential := credentialOf(r)
	if credential == nil {
		return "", nil
	}
	key := fmt.Sprintf("%x %s %s %s", credential, action.Verb, action.Subresource, action.Name)
	if name, ok := a.known.Get(key); ok {
		return name.(string), nil
	}
	name, err := a.ask(r, action)
	if err == nil && name != "" {
		a.accepted.Add(string(credential), name, acceptedLife)
	}
	if err == nil {
		a.known.Set(key, name, answerLife)
	}
	return name, err
}

func (a *administrators) ask(r *http.Request, action authorizer.AttributesRecord) (string, error) {
	ctx, end := askContext(r)
	defer end()
	requester, err := a.whoIs(ctx, r)
	if err != nil || requester == nil {
		return "", err
	}
	action.User, action.ResourceRequest = requester, true
	action.APIGroup, action.APIVersion, action.Resource = Resource.Group, Resource.Version, Resource.Resource
	decision, _, _ := a.rights.Authorize(ctx, action) // an error allows nothing, as in a SelfSubjectAccessReview
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("ask the server whether %s may %s the control plane: %w", requester.GetName(), action.Verb,
			context.Cause(ctx))
	case decision == authorizer.DecisionAllow:
		return requester.GetName(), nil
	}
	return "", nil
}

// whoIs returns the host's user who sends the request; nil if the host accepts no credentials of it.
// Nothing else of the request counts. It does not send a review through the API, which the host's
// admission, such as a webhook that is down, could refuse.
func (a *administrators) whoIs(ctx context.Context, r *http.Request) (user.Info, error) {
	asked := (&http.Request{Method: r.Method, URL: r.URL, Host: r.Host, RemoteAddr: r.RemoteAddr, TLS: r.TLS,
		Header: http.Header{}}).WithContext(ctx)
	if token := r.Header.Get("Authorization"); token != "" {
		asked.Header.Set("Authorization", token)
	}
	response, ok, err := a.users.AuthenticateRequest(asked)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("ask the server who the user is: %w", context.Cause(ctx))
	case err != nil || !ok || response.User.GetName() == user.Anonymous: // as upstream, which answers 401
		return nil, nil
	}
	return response.User, nil
}

// askContext ends after askTimeout or with the request, and has none of its values: it is another server's.
func askContext(r *http.Request) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	stop := context.AfterFunc(r.Context(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
