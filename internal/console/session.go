package console

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"
)

// Limits of tokens and sessions.
const (
	// tokenAge is how long a printed token can be used.
	tokenAge = 15 * time.Minute
	// sessionAge ends a session, its watches included.
	sessionAge = 12 * time.Hour
	// sessionIdle ends a session without requests. A page that is in view sends
	// some every few seconds, a hidden one none.
	sessionIdle = time.Hour
)

const (
	// keyHeader has the key of a session. Browsers send a cookie to each port of a
	// host, so that a server of another user on this machine can get it; the key is
	// in the storage of this port's pages only.
	keyHeader = "X-Console-Key"
	// sessionHeader is set when the session of a page has ended.
	sessionHeader = "X-Console-Session"
	// cookieName is that of the cookie of a session.
	cookieName = "kube-hyper-mini-console"
)

// sessions starts one session for each token. It is safe for concurrent use.
type sessions struct {
	now func() time.Time
	// used is closed when the first session begins.
	used  chan struct{}
	first sync.Once

	mu        sync.Mutex
	token     string // not used yet
	issued    time.Time
	announced bool
	started   map[string]*session // by the cookie's value
}

// session of a browser.
type session struct {
	key  string
	ends time.Time // at the latest
	seen time.Time // the last request
}

func newSessions(now func() time.Time) *sessions {
	s := &sessions{now: now, used: make(chan struct{}), started: map[string]*session{}}
	s.renew()
	return s
}

// renew makes another token. The caller holds mu.
func (s *sessions) renew() { s.token, s.issued, s.announced = rand.Text(), s.now(), false }

// announce returns the unused token, and whether this is the first call that returns it:
// each token is printed once.
func (s *sessions) announce() (token string, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Sub(s.issued) > tokenAge {
		s.renew()
	}
	first = !s.announced
	if first {
		s.issued, s.announced = s.now(), true
	}
	return s.token, first
}

// begin starts a session if the token is the unused one, makes another token, and
// returns the key of the session.
func (s *sessions) begin(w http.ResponseWriter, token string) (key string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 || now.Sub(s.issued) > tokenAge {
		return "", false
	}
	for id, each := range s.started {
		if each.over(now) {
			delete(s.started, id)
		}
	}
	id := rand.Text()
	started := &session{key: rand.Text(), ends: now.Add(sessionAge), seen: now}
	s.first.Do(func() { close(s.used) })
	s.started[id] = started
	s.renew()
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: id, Path: "/", MaxAge: int(sessionAge.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	return started.key, true
}

// of returns the session of the request's cookie; nil if there is none or if it has
// ended. The request counts as use of the session.
func (s *sessions) of(r *http.Request) *session {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.started[cookie.Value]
	if found == nil {
		return nil
	}
	now := s.now()
	if found.over(now) {
		delete(s.started, cookie.Value)
		return nil
	}
	found.seen = now
	return found
}

// over reports whether the session has ended, by its age or without requests.
func (s *session) over(now time.Time) bool {
	return !now.Before(s.ends) || now.Sub(s.seen) > sessionIdle
}

// hasKey reports whether the request has the key of the session.
func (s *session) hasKey(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(r.Header.Get(keyHeader)), []byte(s.key)) == 1
}
