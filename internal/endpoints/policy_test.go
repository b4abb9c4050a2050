package endpoints

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// policy is that of a configuration with changes to the default.
func policy(t *testing.T, change func(*config.ServerConfiguration)) *Policy {
	t.Helper()
	cfg := config.Default()
	change(cfg)
	p, err := NewPolicy(cfg.ServiceEndpointPolicy, cfg.Serving.OnLoopbackOnly())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func everywhere(c *config.ServerConfiguration) { c.Serving.BindAddress = "0.0.0.0" }

func TestPolicy(t *testing.T) {
	only := func(c *config.ServerConfiguration) {
		everywhere(c)
		c.ServiceEndpointPolicy.AllowedNetworks = []string{"10.0.0.0/8", "127.0.0.1", "169.254.1.0/24"}
		c.ServiceEndpointPolicy.AllowedPorts = []config.Scalar{"443", "8000-8999"}
		c.ServiceEndpointPolicy.DeniedPorts = []config.Scalar{"8443"}
	}
	for name, test := range map[string]struct {
		change          func(*config.ServerConfiguration)
		allowed, denied []string
	}{
		"default": {func(*config.ServerConfiguration) {},
			[]string{"10.0.0.7:443", "127.0.0.1:6443", "[::1]:22", "example.com:443", "[2001:db8::1]:443"},
			[]string{"169.254.169.254:80", "[fe80::1]:443", "[fd00:ec2::254]:80", "[::ffff:169.254.169.254]:80", "100.100.100.200:80", "224.0.0.1:443"}},
		"a server for others": {everywhere,
			[]string{"10.0.0.7:443", "example.com:443"},
			[]string{"127.0.0.1:6443", "127.8.8.8:1", "[::1]:22", "[::ffff:127.0.0.1]:22", "0.0.0.0:22", "[::]:22", "169.254.169.254:80"}},
		"only some": {only,
			[]string{"10.0.0.7:443", "10.0.0.7:8000", "10.0.0.7:8999", "127.0.0.1:443", "example.com:443"},
			[]string{"11.0.0.7:443", "10.0.0.7:444", "10.0.0.7:8443", "127.0.0.2:443", "169.254.1.1:443", "example.com:22", "[::1]:443"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy(t, test.change)
			for _, target := range test.allowed {
				if err := p.checkTarget(target); err != nil {
					t.Errorf("%s: %v", target, err)
				}
			}
			for _, target := range test.denied {
				var denied *DeniedError
				if err := p.checkTarget(target); !errors.As(err, &denied) {
					t.Errorf("%s: %v", target, err)
				}
			}
		})
	}
}

// TestNamesAreCheckedWhenDialled: a name whose address is denied is not connected to, and
// neither the error nor the status has the address.
func TestNamesAreCheckedWhenDialled(t *testing.T) {
	address := listen(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New([]config.ServiceEndpoint{{Namespace: "ns", Name: "static", Targets: []string{"https://localhost:" + port}}}, policy(t, everywhere))
	if err != nil {
		t.Fatal(err)
	}
	r.set(ref, []string{"localhost:" + port})
	_, err = dialRef(t, r)
	var denied *DeniedError
	if !errors.As(err, &denied) || strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(err.Error(), "::1") {
		t.Errorf("it says %v", err)
	}
	told := []string{}
	for _, target := range []string{"localhost:" + port, strings.Replace(refusing(t), "127.0.0.1", "localhost", 1)} {
		p := &prober{resolver: r, dial: Direct(), log: slog.New(slog.DiscardHandler)}
		_, spoken := p.handshake(t.Context(), ref, target)
		told = append(told, strings.ReplaceAll(spoken.Error(), target, "TARGET"))
	}
	if told[0] != told[1] || told[0] != "TARGET is not reachable" {
		t.Errorf("the status tells an open port from a closed one: %q", told)
	}
	connection, err := r.Dialer(Direct())(t.Context(), "tcp", "static.ns.svc:443")
	if err != nil {
		t.Fatalf("the configuration's target: %v", err)
	}
	_ = connection.Close() // nothing was sent
}

// TestHealthIsOfOneReference: the health of an address in one namespace has no effect in
// another.
func TestHealthIsOfOneReference(t *testing.T) {
	dead, other := refusing(t), Reference{"elsewhere", "svc"}
	r := newResolver(t)
	r.set(ref, []string{dead, "b:1"})
	r.set(other, []string{dead, "b:1"})
	r.healthOf(ref).mark(dead, errors.New("refused"))
	if first := r.healthOf(ref).order(r.targets(ref), 0)[0]; first != "b:1" {
		t.Errorf("%s is tried first", first)
	}
	if first := r.healthOf(other).order(r.targets(other), 0)[0]; first != dead {
		t.Errorf("in another namespace %s is tried first", first)
	}
}

func TestUnmappedZone(t *testing.T) {
	if policy(t, everywhere).allowsAddress(netip.MustParseAddr("fe80::1%eth0")) {
		t.Error("a link-local address with a zone is allowed")
	}
}
