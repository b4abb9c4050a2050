package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/connections"
)

const (
	// dialTimeout bounds the time in which a target accepts a connection.
	dialTimeout = 5 * time.Second
	// nextTimeout is the same for a target after which there is another one: a target that
	// drops packets must not delay a request for long that another one can answer.
	nextTimeout = 500 * time.Millisecond
)

// ConnectError means that no target of a reference accepts a connection.
type ConnectError struct {
	Reference Reference
	cause     error
}

// Error implements error.
func (e *ConnectError) Error() string {
	return fmt.Sprintf("no target of service %s accepts a connection: %v", e.Reference, e.cause)
}

// Unwrap returns the errors of the targets.
func (e *ConnectError) Unwrap() error { return e.cause }

// Direct is the dialer below [Resolver.Dialer] if no other is configured.
func Direct() utilnet.DialFunc {
	return (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, ControlContext: checkResolved}).DialContext
}

// Dialer returns a dial function that connects hosts of the resolvers to their targets,
// and dials all other hosts with base. Errors are [UnresolvedError] and [ConnectError].
func (r *Resolver) Dialer(base utilnet.DialFunc) utilnet.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return base(ctx, network, address)
		}
		ref, pooled, ok := parseHost(host)
		if !ok {
			return base(ctx, network, address)
		}
		targets, err := r.find(ctx, ref)
		if err != nil {
			return nil, err
		}
		if targets == nil {
			return dialServiceName(ctx, network, ref, port, base)
		}
		connection, target, err := r.dialAny(ctx, base, ref, targets)
		if err != nil || !pooled {
			return connection, err
		}
		return &connections.Pooled{Conn: connection,
			Current: func() bool { return slices.Contains(r.targets(ref), target) }}, nil
	}
}

// dialServiceName dials the name that cluster DNS would resolve.
func dialServiceName(ctx context.Context, network string, ref Reference, port string,
	base utilnet.DialFunc) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	connection, err := base(ctx, network, net.JoinHostPort(ref.host(), port))
	if _, unresolved := errors.AsType[*net.DNSError](err); unresolved {
		return nil, &UnresolvedError{Reference: ref, cause: err}
	}
	if err != nil {
		return nil, &ConnectError{Reference: ref, cause: err}
	}
	return connection, nil
}

// dialAny connects to the first of the targets that accepts a connection, and returns that
// target. It records the health of those that it has tried.
func (r *Resolver) dialAny(ctx context.Context, base utilnet.DialFunc, ref Reference,
	targets []string) (net.Conn, string, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	health := r.healthOf(ref)
	targets = health.order(targets, r.turn.Add(1))
	var errs []error
	for i, target := range targets {
		attempt, cancel := ctx, func() {}
		if i < len(targets)-1 {
			attempt, cancel = context.WithTimeout(ctx, nextTimeout)
		}
		connection, err := connect(attempt, base, r.policyOf(ref), target)
		cancel()
		if ctx.Err() == nil && health.mark(target, err) {
			r.Changed(ref)
		}
		if err == nil {
			return connection, target, nil
		}
		errs = append(errs, err)
	}
	return nil, "", &ConnectError{Reference: ref, cause: errors.Join(append(errs, context.Cause(ctx))...)}
}

// connect is base within the policy. If base sends names to another machine, such as an
// egress proxy, only literal addresses and ports are checked.
func connect(ctx context.Context, base utilnet.DialFunc, policy *Policy, target string) (net.Conn, error) {
	if err := policy.checkTarget(target); err != nil {
		return nil, err
	}
	connection, err := base(withPolicy(ctx, policy), "tcp", target)
	if _, denied := errors.AsType[*DeniedError](err); denied {
		// Without the address of the name.
		return nil, &DeniedError{Target: target, Resolved: true}
	}
	return connection, err
}
