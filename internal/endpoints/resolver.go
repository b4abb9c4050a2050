package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/util/webhook"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/connections"
)

// syncTimeout bounds the time that a connection waits for the first list of
// ServiceEndpoints.
const syncTimeout = 5 * time.Second

// Reference is the namespace and name in a `service:` reference.
type Reference struct{ Namespace, Name string }

// String is namespace/name.
func (r Reference) String() string { return r.Namespace + "/" + r.Name }

// host is the name that certificates are verified for.
func (r Reference) host() string { return r.Name + "." + r.Namespace + ".svc" }

// UnresolvedError means that a reference has no targets and its upstream name does
// not resolve. Its text names the object to create.
type UnresolvedError struct {
	Reference Reference
	cause     error
}

// Error implements error.
func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("service %q in namespace %q has no targets: create the ServiceEndpoint (%s/%s) %q in namespace %q "+
		"with spec.targets: [\"https://host:port\"], or add it to serviceEndpoints in the configuration (%v)",
		e.Reference.Name, e.Reference.Namespace, Group, Version, e.Reference.Name, e.Reference.Namespace, e.cause)
}

// Unwrap returns the error of the upstream name.
func (e *UnresolvedError) Unwrap() error { return e.cause }

// Resolver resolves references to targets. It is safe for concurrent use.
type Resolver struct {
	configTargets map[Reference][]string
	policy        *Policy // of objects
	metrics       resolverMetrics
	turn          atomic.Uint32
	synced        chan struct{} // closed when objectTargets has the first list

	mu            sync.RWMutex
	objectTargets map[Reference][]string
	healths       map[Reference]*health // per reference, so that it does not depend on objects of other namespaces
	states        map[Reference]State
	listeners     []func(Reference)
}

// New returns a resolver with the entries of the configuration. [Resolver.Run] adds the
// targets of objects; policy restricts those.
func New(entries []config.ServiceEndpoint, policy *Policy) (*Resolver, error) {
	r := &Resolver{
		configTargets: map[Reference][]string{}, policy: policy, metrics: newResolverMetrics(), synced: make(chan struct{}),
		objectTargets: map[Reference][]string{}, healths: map[Reference]*health{}, states: map[Reference]State{},
	}
	for i, entry := range entries {
		addresses, err := addresses(entry.Targets)
		if err != nil {
			return nil, fmt.Errorf("read serviceEndpoints[%d] of the configuration: %w", i, err)
		}
		r.configTargets[Reference{entry.Namespace, entry.Name}] = addresses
	}
	return r, nil
}

func addresses(targets []string) ([]string, error) {
	var list []string
	for _, target := range targets {
		address, err := config.TargetAddress(target)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	return list, nil
}

// OnChange calls f, from any goroutine, after a reference's targets or their
// health have changed.
func (r *Resolver) OnChange(f func(Reference)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, f)
}

// Changed calls the functions of OnChange for a reference.
func (r *Resolver) Changed(ref Reference) {
	r.mu.RLock()
	listeners := r.listeners
	r.mu.RUnlock()
	for _, f := range listeners {
		f(ref)
	}
}

// set replaces the targets from an object of a reference; nil removes them.
func (r *Resolver) set(ref Reference, addresses []string) {
	r.mu.Lock()
	previous := r.objectTargets[ref]
	if addresses == nil {
		delete(r.objectTargets, ref)
	} else {
		r.objectTargets[ref] = addresses
	}
	r.mu.Unlock()
	if slices.Equal(previous, addresses) {
		return
	}
	r.forgetHealth(ref, previous, addresses)
	r.Changed(ref)
}

// targets returns the current targets; the configuration has precedence over an object.
func (r *Resolver) targets(ref Reference) []string {
	if static := r.configTargets[ref]; static != nil {
		return static
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.objectTargets[ref]
}

// configured reports whether the configuration has the reference.
func (r *Resolver) configured(ref Reference) bool { return r.configTargets[ref] != nil }

// policyOf returns the policy for the targets of a reference; nil for those of the
// configuration.
func (r *Resolver) policyOf(ref Reference) *Policy {
	if r.configured(ref) {
		return nil
	}
	return r.policy
}

// healthOf returns the health of a reference's targets.
func (r *Resolver) healthOf(ref Reference) *health {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.healths[ref] == nil {
		r.healths[ref] = newHealth()
	}
	return r.healths[ref]
}

func (r *Resolver) forgetHealth(ref Reference, previous, current []string) {
	if current == nil && !r.configured(ref) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.healths, ref)
		return
	}
	for _, address := range previous {
		if !slices.Contains(current, address) {
			r.healthOf(ref).forget(address)
		}
	}
}

// find returns targets(ref). If there are none, it first waits until the objects have been
// listed once.
func (r *Resolver) find(ctx context.Context, ref Reference) ([]string, error) {
	if targets := r.targets(ref); targets != nil {
		return targets, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, syncTimeout, errors.New("the ServiceEndpoints have not been listed yet"))
	defer cancel()
	select {
	case <-r.synced:
		return r.targets(ref), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("find the targets of service %s: %w", ref, context.Cause(ctx))
	}
}

// Webhooks returns the resolver for clients of webhooks. Their pooled connections refuse
// new requests when the target is no longer one of the reference's; the client then dials
// again (see [connections.Pooled]).
func (r *Resolver) Webhooks() webhook.ServiceResolver {
	return resolveFunc(func(ref Reference) string { return ref.host() })
}

// Aggregator returns the resolver for the aggregator's proxy. The host changes with the
// targets (see [connections.PoolHost]).
func (r *Resolver) Aggregator() webhook.ServiceResolver {
	return resolveFunc(func(ref Reference) string { return connections.PoolHost(ref.host(), r.targets(ref)) })
}

// resolveFunc makes a host of a reference.
type resolveFunc func(Reference) string

// ResolveEndpoint implements [webhook.ServiceResolver]. The URL is for
// [Resolver.Dialer], which returns an error for a reference without targets.
func (f resolveFunc) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if len(validation.IsDNS1035Label(name))+len(validation.IsDNS1123Label(namespace)) > 0 || port < 1 || port > 65535 {
		return nil, fmt.Errorf("resolve service %q in namespace %q, port %d: not a Service's name, namespace and port", name,
			namespace, port)
	}
	host := f(Reference{Namespace: namespace, Name: name})
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}, nil
}

// parseHost reverses the two resolvers. pooled means that the client keeps the connection
// when the targets change.
func parseHost(host string) (ref Reference, pooled, ok bool) {
	if host, ok := connections.CutPool(host); ok {
		ref, _, ok = parseHost(host)
		return ref, false, ok
	}
	labels := strings.Split(host, ".")
	if len(labels) != 3 || labels[2] != "svc" {
		return Reference{}, false, false
	}
	return Reference{Namespace: labels[1], Name: labels[0]}, true, true
}

const (
	// A target that did not accept a connection is tried last during a pause that
	// doubles with each further failure.
	firstPause = time.Second
	maxPause   = 30 * time.Second
)

// health records the targets that refuse connections, and those that accept them
// but do not complete a TLS handshake, as a process that hangs.
type health struct {
	mu     sync.Mutex
	down   map[string]outage
	silent map[string]bool
	now    func() time.Time
}

type outage struct {
	pause time.Duration
	until time.Time
}

func newHealth() *health {
	return &health{down: map[string]outage{}, silent: map[string]bool{}, now: time.Now}
}

// mark records whether a target has accepted a connection, and reports whether that has
// changed.
func (h *health) mark(target string, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, wasDown := h.down[target]
	if err == nil {
		delete(h.down, target)
		return wasDown
	}
	pause := firstPause
	if wasDown {
		pause = min(2*before.pause, maxPause)
	}
	h.down[target] = outage{pause: pause, until: h.now().Add(pause)}
	return !wasDown
}

// markSilent records whether a target that accepts connections does not speak TLS, and
// reports whether that has changed. A connection alone does not clear it.
func (h *health) markSilent(target string, silent bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	wasSilent := h.silent[target]
	if silent {
		h.silent[target] = true
	} else {
		delete(h.silent, target)
	}
	return wasSilent != silent
}

// forget drops the state of a target that no reference has any more.
func (h *health) forget(target string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.down, target)
	delete(h.silent, target)
}

// order returns the targets in the order in which to try them: healthy ones in turns,
// then those that failed, by the end of their pause.
func (h *health) order(targets []string, turn uint32) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	var up, down []string
	for _, target := range targets {
		if outage, failed := h.down[target]; h.silent[target] || failed && now.Before(outage.until) {
			down = append(down, target)
		} else {
			up = append(up, target)
		}
	}
	slices.SortStableFunc(down, func(a, b string) int { return h.down[a].until.Compare(h.down[b].until) })
	if len(up) > 1 {
		first := int(turn % uint32(len(up)))
		up = append(slices.Clone(up[first:]), up[:first]...)
	}
	return append(up, down...)
}
