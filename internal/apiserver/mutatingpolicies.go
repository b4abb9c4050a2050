package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	mutatingadmissionpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// schemasTimeout bounds how long a start waits until the plugin has read the
// list of OpenAPI documents.
const schemasTimeout = 20 * time.Second

const (
	// maxPolicyListHold bounds how long a request of the plugin is held.
	maxPolicyListHold = 30 * time.Second
	// policyListCheck is the interval at which a held request looks for a change.
	policyListCheck = kube.PolicySchemasInterval
)

// mutatingPolicies lets a start wait until stored policies that mutate are in
// force. It is safe for concurrent use.
type mutatingPolicies struct {
	// stored reports whether there are any that the plugin applies.
	stored func(ctx context.Context) (bool, error)
	// read is closed when the plugin has read the list of OpenAPI documents.
	read     chan struct{}
	markRead func()

	mu sync.Mutex
	// answered is the version of the list that the plugin has read; empty for none.
	answered string
}

func (b *builder) mutatingPolicies() *mutatingPolicies {
	m := &mutatingPolicies{read: make(chan struct{})}
	m.markRead = sync.OnceFunc(func() { close(m.read) })
	isOn := kube.IsOn(mutatingadmissionpolicy.PluginName, b.options.Admission.GenericAdmission)
	m.stored = func(ctx context.Context) (bool, error) {
		if !isOn {
			return false, nil
		}
		return b.config.Storage.HasObjects(ctx, admissionregistrationv1.Resource("mutatingadmissionpolicybindings"), "")
	}
	return m
}

// observe closes read when handler has answered the plugin's request for the list of
// OpenAPI documents. It holds the plugin's next requests until the list has changed.
// version returns the version of the list; empty if it is not known.
func (m *mutatingPolicies) observe(openAPI *lazyOpenAPI, handler http.Handler, version func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !kube.ReadsPolicySchemas(r) {
			handler.ServeHTTP(w, r)
			return
		}
		answered := ""
		if openAPI.isBuilt() {
			answered = m.awaitChange(r, openAPI.stopping, version)
		}
		handler.ServeHTTP(w, r)
		if openAPI.isBuilt() {
			m.mu.Lock()
			m.answered = answered
			m.mu.Unlock()
			m.markRead()
		}
	})
}

// awaitChange returns the version of the list when it is not that of the last answer, or
// after maxPolicyListHold, and before the request ends or the server stops.
func (m *mutatingPolicies) awaitChange(r *http.Request, stopping <-chan struct{}, version func(*http.Request) string) string {
	m.mu.Lock()
	answered := m.answered
	m.mu.Unlock()
	until := time.Now().Add(maxPolicyListHold)
	if deadline, ok := r.Context().Deadline(); ok && deadline.Add(-time.Second).Before(until) {
		until = deadline.Add(-time.Second)
	}
	for {
		current := version(r)
		left := time.Until(until)
		if current == "" || current != answered || left <= 0 {
			return current
		}
		select {
		case <-time.After(min(left, policyListCheck)):
		case <-r.Context().Done():
			return current
		case <-stopping:
			return current
		}
	}
}

// awaitMutatingPolicies returns when stored policies that mutate are in force, or
// with a warning if the plugin takes too long. [Server.BuildOpenAPI] was called.
func (s *Server) awaitMutatingPolicies(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, schemasTimeout, errors.New("the admission plugin has not read the list of OpenAPI documents"))
	defer cancel()
	select {
	case <-s.mutating.read:
	case <-waiting.Done():
		if ctx.Err() != nil {
			return fmt.Errorf("wait until mutating admission policies are in force: %w", context.Cause(ctx))
		}
		s.log.Warn("mutating admission policies refuse the requests that they match until the plugin has read the schemas", "error", context.Cause(waiting))
	}
	return nil
}
