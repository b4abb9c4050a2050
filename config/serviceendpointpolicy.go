package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// ServiceEndpointPolicy bounds the targets of ServiceEndpoint objects, not those
// of the configuration. A target that is both allowed and denied is denied.
type ServiceEndpointPolicy struct {
	// AllowedNetworks are the only ones, as 10.0.0.0/8; empty for all. Loopback
	// addresses are allowed only if they are in one of them, or if the server
	// itself listens on loopback.
	AllowedNetworks []string `json:"allowedNetworks"`
	DeniedNetworks  []string `json:"deniedNetworks"`
	// AllowedPorts are the only ones, as "443" or "8000-8999"; empty for all.
	AllowedPorts []Scalar `json:"allowedPorts"`
	DeniedPorts  []Scalar `json:"deniedPorts"`
}

// metadataNetworks are link-local addresses and those of the metadata services of
// clouds, which serve credentials.
var metadataNetworks = []string{"169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128",
	"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"}

// PortRange is a range of ports with both ends.
type PortRange struct{ First, Last uint16 }

// ParseNetwork reads a network, as 10.0.0.0/8, or a single address.
func ParseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return network, fmt.Errorf("%q is not a network; write it as 10.0.0.0/8 or fd00::/8", text)
	}
	return network.Masked(), nil
}

// ParsePorts reads a port, as 443, or a range, as 8000-8999.
func ParsePorts(text string) (PortRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 16)
	to, errTo := strconv.ParseUint(last, 10, 16)
	if err != nil || errTo != nil || from == 0 || from > to {
		return PortRange{}, fmt.Errorf("%q is neither a port nor a range of ports; write 443 or 8000-8999", text)
	}
	return PortRange{First: uint16(from), Last: uint16(to)}, nil
}

// OnLoopbackOnly reports whether only this machine reaches the server.
func (s *Serving) OnLoopbackOnly() bool { return net.ParseIP(s.BindAddress).IsLoopback() }

func (p *ServiceEndpointPolicy) validate(fail func(path, format string, args ...any)) {
	for field, networks := range map[string][]string{"allowedNetworks": p.AllowedNetworks,
		"deniedNetworks": p.DeniedNetworks} {
		for i, network := range networks {
			if _, err := ParseNetwork(network); err != nil {
				fail(fmt.Sprintf("serviceEndpointPolicy.%s[%d]", field, i), "%v", err)
			}
		}
	}
	for field, ports := range map[string][]Scalar{"allowedPorts": p.AllowedPorts, "deniedPorts": p.DeniedPorts} {
		for i, port := range ports {
			if _, err := ParsePorts(string(port)); err != nil {
				fail(fmt.Sprintf("serviceEndpointPolicy.%s[%d]", field, i), "%v", err)
			}
		}
	}
}
