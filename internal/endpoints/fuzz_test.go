package endpoints

import (
	"net"
	"strconv"
	"testing"

	"k8s.io/apiserver/pkg/util/webhook"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// FuzzTargets: a target is refused, or is an address that means the same when
// it is written as a target.
func FuzzTargets(f *testing.F) {
	for _, target := range []string{"https://10.0.0.7:8443", "https://h.example.org", "https://[::1]:1", "http://a", "https://a:b@c:1/d?e#f", "https://[fe80::1%25lo]:1", "https://a:+1", "https://a:0443"} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		list, err := addresses([]string{target, target})
		if err != nil {
			return
		}
		if len(list) != 1 {
			t.Fatalf("%q twice is %q", target, list)
		}
		host, port, err := net.SplitHostPort(list[0])
		if err != nil || host == "" {
			t.Errorf("%q is the address %q: %v", target, list[0], err)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			t.Errorf("%q is the address %q, which has no port", target, list[0])
		}
		if again, err := config.TargetAddress("https://" + list[0]); err != nil || again != list[0] {
			t.Errorf("%q is the address %q, and that is %q: %v", target, list[0], again, err)
		}
	})
}

// FuzzReference: a reference is refused, or the address that it resolves to can
// be dialled.
func FuzzReference(f *testing.F) {
	f.Add("ns", "svc", int32(443), "https://10.0.0.7:8443")
	f.Add("n.s", "svc.ns", int32(0), "https://a")
	f.Add("targets-1", "targets-2", int32(65536), "")
	f.Fuzz(func(t *testing.T, namespace, name string, port int32, target string) {
		r, err := New([]config.ServiceEndpoint{{Namespace: namespace, Name: name, Targets: []string{target}}}, nil)
		if err != nil {
			return
		}
		for pooled, resolver := range map[bool]webhook.ServiceResolver{true: r.Webhooks(), false: r.Aggregator()} {
			location, err := resolver.ResolveEndpoint(namespace, name, port)
			if err != nil {
				continue
			}
			ref, kept, ok := parseHost(location.Hostname())
			if want := (Reference{Namespace: namespace, Name: name}); !ok || ref != want || kept != pooled {
				t.Errorf("%s resolves to %s, which is taken for %s (%t, %t)", want, location, ref, kept, ok)
			}
			if location.Port() != strconv.Itoa(int(port)) {
				t.Errorf("port %d resolves to %s", port, location)
			}
		}
	})
}

// FuzzHost: a host is not a service's name, or stands for exactly one
// reference.
func FuzzHost(f *testing.F) {
	for _, host := range []string{"svc.ns.svc", "targets-1f.svc.ns.svc", "targets-.targets-.ns.svc", "a.b.c.d", "..svc", "targets-1.targets-2.svc.ns.svc"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		ref, pooled, ok := parseHost(host)
		switch {
		case !ok && ref != Reference{}:
			t.Errorf("%q is not a service's name and gives %s", host, ref)
		case ok && pooled && ref.host() != host:
			t.Errorf("%q is taken for %s", host, ref)
		case ok && !pooled:
			if rest := host[len(host)-len(ref.host()):]; rest != ref.host() {
				t.Errorf("%q is taken for %s", host, ref)
			}
		}
	})
}
