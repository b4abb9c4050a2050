package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
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
	// closeTimeout bounds how long Close waits for the attempts that it ends. Upstream's
	// client of an egress proxy waits for the answer of the proxy without a context.
	closeTimeout = time.Second
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

// attempts are the goroutines that connect to targets. They may outlive the requests that
// they are for.
type attempts struct {
	mu      sync.Mutex // orders start and the wait for running
	closed  context.Context
	close   context.CancelFunc
	running sync.WaitGroup
}

func newAttempts() *attempts {
	a := &attempts{}
	a.closed, a.close = context.WithCancel(context.Background())
	return a
}

// start runs attempt, whose context ends when the attempts are closed, or returns an error
// if they are closed already. The context has the values of ctx.
func (a *attempts) start(ctx context.Context, attempt func(context.Context)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed.Err() != nil {
		return errors.New("the server is stopping")
	}
	a.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		defer context.AfterFunc(a.closed, cancel)()
		attempt(ctx)
	})
	return nil
}

// Close ends the attempts to connect and waits for them, for closeTimeout at most. Later
// attempts fail.
func (r *Resolver) Close() {
	r.attempts.mu.Lock()
	r.attempts.close()
	r.attempts.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.attempts.running.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(closeTimeout):
	}
}

// race connects to several targets, the next one after headStart or a failure, and uses
// the first connection.
type race struct {
	resolver *Resolver
	ref      Reference
	health   *health
	base     utilnet.DialFunc
	policy   *Policy
	results  chan dialResult
	ended    chan struct{} // closed when run has returned
}

type dialResult struct {
	connection net.Conn
	target     string
	err        error
}

func (r *race) run(ctx context.Context, targets []string) (net.Conn, string, error) {
	r.results, r.ended = make(chan dialResult), make(chan struct{})
	defer close(r.ended)
	timer := time.NewTimer(headStart)
	defer timer.Stop()
	var errs []error
	started, pending := 0, 0
	next := func() {
		if started < len(targets) {
			target := targets[started]
			started++
			if err := r.resolver.attempts.start(ctx, func(ctx context.Context) { r.dial(ctx, target) }); err != nil {
				errs = append(errs, err)
				return
			}
			pending++
			timer.Reset(headStart)
		}
	}
	for next(); pending > 0; {
		select {
		case <-timer.C:
			next()
		case result := <-r.results:
			pending--
			if result.err == nil {
				return result.connection, result.target, nil
			}
			errs = append(errs, result.err)
			next()
		case <-ctx.Done():
			return nil, "", &ConnectError{Reference: r.ref, cause: errors.Join(append(errs, context.Cause(ctx))...)}
		}
	}
	return nil, "", &ConnectError{Reference: r.ref, cause: errors.Join(errs...)}
}

// dial continues after the end of the request, for dialTimeout at most: its result is the
// health of the target for the next request.
func (r *race) dial(ctx context.Context, target string) {
	connection, err := connect(ctx, r.base, r.policy, target)
	if r.resolver.attempts.closed.Err() == nil && r.health.mark(target, err) {
		r.resolver.Changed(r.ref)
	}
	select {
	case r.results <- dialResult{connection: connection, target: target, err: err}:
	case <-r.ended:
		if err == nil {
			_ = connection.Close() // nothing was sent on it
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
