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
	// headStart is the time between the attempts to connect to two targets: a target
	// that drops packets must not delay a request that another one can answer.
	headStart = 250 * time.Millisecond
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
		race := &race{resolver: r, ref: ref, health: r.healthOf(ref), base: base, policy: r.policyOf(ref)}
		connection, target, err := race.run(ctx, race.health.order(targets, r.turn.Add(1)))
		if err != nil || !pooled {
			return connection, err
		}
		return &connections.Pooled{Conn: connection, Current: func() bool { return slices.Contains(r.targets(ref), target) }}, nil
	}
}

// dialServiceName dials the name that cluster DNS would resolve.
func dialServiceName(ctx context.Context, network string, ref Reference, port string, base utilnet.DialFunc) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	connection, err := base(ctx, network, net.JoinHostPort(ref.host(), port))
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return nil, &UnresolvedError{Reference: ref, cause: err}
	case err != nil:
		return nil, &ConnectError{Reference: ref, cause: err}
	}
	return connection, nil
}

// race connects to several targets, the next one after headStart or a failure, and uses
// the first connection.
type race struct {
	resolver *Resolver
	ref      Reference
	health   *health
	base     utilnet.DialFunc
	policy   *Policy
}

type dialResult struct {
	connection net.Conn
	target     string
	err        error
}

// errSlow is recorded for a target that another one has overtaken by headStart.
var errSlow = errors.New("another target was faster")

func (r *race) run(ctx context.Context, targets []string) (net.Conn, string, error) {
	dialling, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	results, pending := make(chan dialResult, len(targets)), map[string]time.Time{}
	timer := time.NewTimer(headStart)
	defer timer.Stop()
	next := func() {
		if len(targets) == 0 {
			return
		}
		target := targets[0]
		targets, pending[target] = targets[1:], time.Now()
		timer.Reset(headStart)
		go func() {
			connection, err := connect(dialling, r.base, r.policy, target)
			results <- dialResult{connection, target, err}
		}()
	}
	var errs []error
	for next(); len(pending) > 0; {
		select {
		case <-timer.C:
			next()
		case result := <-results:
			delete(pending, result.target)
			r.mark(result.target, result.err)
			if result.err == nil {
				for target, began := range pending {
					if time.Since(began) >= headStart {
						r.mark(target, errSlow)
					}
				}
				go closeOthers(results, len(pending))
				return result.connection, result.target, nil
			}
			errs = append(errs, result.err)
			next()
		case <-ctx.Done():
			go closeOthers(results, len(pending))
			return nil, "", &ConnectError{Reference: r.ref, cause: errors.Join(append(errs, context.Cause(ctx))...)}
		}
	}
	return nil, "", &ConnectError{Reference: r.ref, cause: errors.Join(errs...)}
}

func (r *race) mark(target string, err error) {
	if r.health.mark(target, err) {
		r.resolver.Changed(r.ref)
	}
}

// closeOthers closes n connections that come too late: their dials end with the race.
func closeOthers(results <-chan dialResult, n int) {
	for range n {
		if result := <-results; result.err == nil {
			_ = result.connection.Close() // nothing was sent on it
		}
	}
}

// connect is base within the policy. If base sends names to another machine, such as an
// egress proxy, only literal addresses and ports are checked.
func connect(ctx context.Context, base utilnet.DialFunc, policy *Policy, target string) (net.Conn, error) {
	if err := policy.checkTarget(target); err != nil {
		return nil, err
	}
	connection, err := base(withPolicy(ctx, policy), "tcp", target)
	var denied *DeniedError
	if errors.As(err, &denied) {
		// Without the address of the name.
		return nil, &DeniedError{Target: target, Resolved: true}
	}
	return connection, err
}
