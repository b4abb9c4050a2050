package console

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"sync"
)

// sessions starts one session for each token. It is safe for concurrent use.
type sessions struct {
	cookie string // its name; browsers do not separate cookies by port

	mu      sync.Mutex
	token   string // the one that has not been used
	started map[string]struct{}
}

func newSessions(port int) *sessions {
	return &sessions{
		cookie: fmt.Sprintf("kube-hyper-mini-console-%d", port),
		token:  rand.Text(), started: map[string]struct{}{},
	}
}

// unused returns the token for the next browser.
func (s *sessions) unused() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// begin starts a session if the token is the unused one, which it replaces.
func (s *sessions) begin(w http.ResponseWriter, token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		return false
	}
	session := rand.Text()
	s.started[session] = struct{}{}
	s.token = rand.Text()
	http.SetCookie(w, &http.Cookie{
		Name: s.cookie, Value: session, Path: "/",
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	return true
}

// allows reports whether the request has a session.
func (s *sessions) allows(r *http.Request) bool {
	cookie, err := r.Cookie(s.cookie)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.started[cookie.Value]
	return ok
}
