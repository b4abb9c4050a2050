package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// Policy restricts the targets of ServiceEndpoint objects. nil allows all.
type Policy struct {
	allowed, denied           []netip.Prefix
	allowedPorts, deniedPorts []config.PortRange
	loopback                  bool
}

// DeniedError means that the policy does not allow a target, or the address of its
// name.
type DeniedError struct {
	Target string
	// Resolved means that the name is allowed and its address is not. Authors of
	// objects do not get this error: it would tell them the address.
	Resolved bool
}

// Error implements error.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s is not allowed by serviceEndpointPolicy in the server's configuration; its administrator "+
		"can allow it there, or name it in serviceEndpoints", e.Target)
}

// NewPolicy reads a valid configuration. loopback tells whether the server listens on
// loopback only: then targets may be there.
func NewPolicy(configured config.ServiceEndpointPolicy, loopback bool) (*Policy, error) {
	p := &Policy{loopback: loopback}
	var errs []error
	networks := func(list []string) (parsed []netip.Prefix) {
		for _, text := range list {
			network, err := config.ParseNetwork(text)
			parsed, errs = append(parsed, network), append(errs, err)
		}
		return parsed
	}
	ports := func(list []config.Scalar) (parsed []config.PortRange) {
		for _, text := range list {
			ports, err := config.ParsePorts(string(text))
			parsed, errs = append(parsed, ports), append(errs, err)
		}
		return parsed
	}
	p.allowed, p.denied = networks(configured.AllowedNetworks), networks(configured.DeniedNetworks)
	p.allowedPorts, p.deniedPorts = ports(configured.AllowedPorts), ports(configured.DeniedPorts)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read serviceEndpointPolicy: %w", err)
	}
	return p, nil
}

// checkTarget checks host:port before the host is resolved.
func (p *Policy) checkTarget(target string) error {
	if p == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	address, err := netip.ParseAddr(host)
	if !p.allowsPort(uint16(number)) || err == nil && !p.allowsAddress(address) {
		return &DeniedError{Target: target}
	}
	return nil
}

func (p *Policy) allowsPort(port uint16) bool {
	in := func(r config.PortRange) bool { return r.First <= port && port <= r.Last }
	return !slices.ContainsFunc(p.deniedPorts, in) && (len(p.allowedPorts) == 0 || slices.ContainsFunc(p.allowedPorts, in))
}

func (p *Policy) allowsAddress(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	in := func(network netip.Prefix) bool { return network.Contains(address) }
	allowed := slices.ContainsFunc(p.allowed, in)
	switch {
	case address.IsMulticast(), slices.ContainsFunc(p.denied, in):
		return false
	case address.IsLoopback(), address.IsUnspecified(): // connecting to 0.0.0.0 leads to this machine
		return allowed || p.loopback && len(p.allowed) == 0
	}
	return allowed || len(p.allowed) == 0
}

type policyKey struct{}

// withPolicy has the dialer of [Direct] check the addresses of its connections.
func withPolicy(ctx context.Context, policy *Policy) context.Context {
	if policy == nil {
		return ctx
	}
	return context.WithValue(ctx, policyKey{}, policy)
}

// checkResolved is a [net.Dialer.ControlContext], which is called with the address
// before the connection is made.
func checkResolved(ctx context.Context, _, address string, _ syscall.RawConn) error {
	policy, ok := ctx.Value(policyKey{}).(*Policy)
	if !ok {
		return nil
	}
	resolved, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !policy.allowsAddress(resolved.Addr()) {
		return &DeniedError{Target: address, Resolved: true}
	}
	return nil
}
