package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	mutatingadmissionpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// schemasTimeout bounds how long a start waits until the plugin has read the
// list of OpenAPI documents.
const schemasTimeout = 20 * time.Second

// mutatingPolicies lets a start wait until stored policies that mutate are in
// force. It is safe for concurrent use.
type mutatingPolicies struct {
	// stored reports whether there are any that the plugin applies.
	stored func(ctx context.Context) (bool, error)
	// read is closed when the plugin has read the list of OpenAPI documents.
	read     chan struct{}
	markRead func()
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

// policyWrites starts the build of the OpenAPI documents, which the plugin needs, when a policy
// that mutates is written: a server in a program builds them only if they are needed.
type policyWrites struct{ *builder }

// Handles implements [admission.Interface].
func (policyWrites) Handles(admission.Operation) bool { return true }

// Validate implements [admission.ValidationInterface].
func (p policyWrites) Validate(_ context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if attributes.GetResource().GroupResource() == admissionregistrationv1.Resource("mutatingadmissionpolicies") {
		p.openAPI.requestBuild()
	}
	return nil
}

// observe closes read when handler has answered the plugin's request for the list of
// OpenAPI documents.
func (m *mutatingPolicies) observe(openAPI *lazyOpenAPI, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
		if kube.ReadsPolicySchemas(r) && openAPI.isBuilt() {
			m.markRead()
		}
	})
}

// awaitMutatingPolicies returns when stored policies that mutate are in force, or
// with a warning if the plugin takes too long. [Server.BuildOpenAPI] was called.
func (s *Server) awaitMutatingPolicies(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, schemasTimeout, errors.New("the admission plugin has not read "+
		"the list of OpenAPI documents"))
	defer cancel()
	select {
	case <-s.mutating.read:
	case <-waiting.Done():
		if ctx.Err() != nil {
			return fmt.Errorf("wait until mutating admission policies are in force: %w", context.Cause(ctx))
		}
		s.log.Warn("mutating admission policies refuse the requests that they match until the plugin has read the schemas",
			"error", context.Cause(waiting))
	}
	return nil
}
