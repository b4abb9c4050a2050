package endpoints

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/util/webhook"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/connections"
)

// listen accepts connections until the test ends.
func listen(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// refusing returns an address without a listener. Its port is not one that the system gives to
// programs that ask for any.
func refusing(t *testing.T) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(15000)))
		if err == nil {
			_ = listener.Close() // nothing has connected
			return listener.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

func newResolver(t *testing.T, entries ...config.ServiceEndpoint) *Resolver {
	t.Helper()
	r, err := New(entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dialRef dials what a resolver answers for ns/svc.
func dialRef(t *testing.T, r *Resolver) (net.Conn, error) {
	t.Helper()
	location, err := r.Aggregator().ResolveEndpoint("ns", "svc", 443)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := r.Dialer(Direct())(t.Context(), "tcp", location.Host)
	if err == nil {
		t.Cleanup(func() { _ = connection.Close() })
	}
	return connection, err
}

var ref = Reference{"ns", "svc"}

func TestConfigurationOverridesObjects(t *testing.T) {
	static, live := listen(t), listen(t)
	r := newResolver(t, config.ServiceEndpoint{Namespace: "ns", Name: "svc", Targets: []string{"https://" + static}})
	dials := func(want string) {
		t.Helper()
		connection, err := dialRef(t, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := connection.RemoteAddr().String(); got != want {
			t.Errorf("connected to %s, want %s", got, want)
		}
	}
	dials(static) // before anything is synced
	r.set(ref, []string{live})
	dials(static)
	r.set(ref, nil)
	dials(static)
}

func TestHealthyTargetAmongUnreachableOnes(t *testing.T) {
	good := listen(t)
	r := newResolver(t)
	now := time.Now() // at which dead targets stay dead
	r.healthOf(ref).now = func() time.Time { return now }
	var mu sync.Mutex
	calls := 0
	r.OnChange(func(Reference) { mu.Lock(); calls++; mu.Unlock() })
	r.set(ref, []string{refusing(t), good, refusing(t)})
	for range 6 {
		connection, err := dialRef(t, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := connection.RemoteAddr().String(); got != good {
			t.Errorf("connected to %s", got)
		}
	}
	for turn := range uint32(5) {
		if first := r.healthOf(ref).order(r.targets(ref), turn)[0]; first != good {
			t.Errorf("with the others known to be dead, %s is tried first", first)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if calls < 2 { // the targets, and a dead one
		t.Errorf("listeners were called %d times", calls)
	}
}

// TestSilentTargetDelaysOthersBriefly, and is tried last after that.
func TestSilentTargetDelaysOthersBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t)
		r.set(ref, []string{"silent.example.com:1", "good.example.com:1"})
		base := func(ctx context.Context, _, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "good") {
				return &net.TCPConn{}, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		for range 2 { // one of them begins with the silent target
			if _, err := r.Dialer(base)(t.Context(), "tcp", "svc.ns.svc:443"); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited != nextTimeout {
			t.Errorf("a silent target delays two connections by %s", waited)
		}
		for turn := range uint32(2) {
			if first := r.healthOf(ref).order(r.targets(ref), turn)[0]; first != "good.example.com:1" {
				t.Errorf("%s is tried first", first)
			}
		}
	})
}

func TestErrorsNameTheObject(t *testing.T) {
	r := newResolver(t)
	close(r.synced)
	_, err := dialRef(t, r)
	var unknown *UnresolvedError
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), `create the ServiceEndpoint (kube-hyper-mini.io/v1alpha1) "svc" in namespace "ns"`) {
		t.Errorf("nothing known: %v", err)
	}
	r.set(ref, []string{refusing(t), refusing(t)})
	_, err = dialRef(t, r)
	var unreachable *ConnectError
	if !errors.As(err, &unreachable) || strings.Count(err.Error(), "refused") != 2 || !strings.Contains(err.Error(), "ns/svc") {
		t.Errorf("all dead: %v", err)
	}
}

func TestUnsyncedIsNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t)
		base := func(_ context.Context, _, address string) (net.Conn, error) {
			if address != "target:1" {
				return nil, fmt.Errorf("nothing listens at %s", address)
			}
			connection, _ := net.Pipe()
			return connection, nil
		}
		found := make(chan error, 1)
		go func() {
			connection, err := r.Dialer(base)(t.Context(), "tcp", "svc.ns.svc:443")
			if err == nil {
				err = connection.Close()
			}
			found <- err
		}()
		synctest.Wait() // it is waiting
		r.set(ref, []string{"target:1"})
		close(r.synced)
		if err := <-found; err != nil {
			t.Errorf("a dial that came before the first list: %v", err)
		}
	})
}

func TestResolveRefusesOtherHosts(t *testing.T) {
	r := newResolver(t)
	for _, bad := range []struct {
		namespace, name string
		port            int32
	}{{"", "svc", 443}, {"ns", "", 443}, {"ns", "svc", 0}, {"ns", "a.b", 443}, {"n.s", "svc", 443}, {"ns", "svc", 70000}} {
		if location, err := r.Webhooks().ResolveEndpoint(bad.namespace, bad.name, bad.port); err == nil {
			t.Errorf("%v resolves to %s", bad, location)
		}
	}
}

func TestHostsChangeWithTheTargetsForTheAggregatorOnly(t *testing.T) {
	r := newResolver(t)
	host := func(resolver webhook.ServiceResolver) string {
		u, err := resolver.ResolveEndpoint("ns", "svc", 8443)
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
	before, webhooks := host(r.Aggregator()), host(r.Webhooks())
	r.set(ref, []string{"a:1"})
	if host(r.Aggregator()) == before {
		t.Errorf("the host for the aggregator stays %s", before)
	}
	if after := host(r.Webhooks()); after != webhooks || after != "svc.ns.svc:8443" {
		t.Errorf("the host for webhooks goes from %s to %s", webhooks, after)
	}
}

func TestHealthPausesGrowAndEnd(t *testing.T) {
	h := newHealth()
	now := time.Now()
	h.now = func() time.Time { return now }
	failure := errors.New("down")
	if !h.mark("a", failure) || h.mark("a", failure) {
		t.Error("the first failure is news, the second is not")
	}
	if order := h.order([]string{"a", "b"}, 0); order[0] != "b" {
		t.Errorf("a target that is down is tried first: %v", order)
	}
	now = now.Add(2*firstPause + time.Millisecond)
	if order := h.order([]string{"a", "b"}, 0); order[0] != "a" {
		t.Errorf("after its pause it is not tried in turn: %v", order)
	}
	if !h.mark("a", nil) || h.mark("a", nil) {
		t.Error("the first success is news, the second is not")
	}
}

func TestPooledConnectionIsNotUsedAfterAMove(t *testing.T) {
	client, server := net.Pipe()
	defer func() { _, _ = client.Close(), server.Close() }()
	current := true
	c := &connections.Pooled{Conn: client, Current: func() bool { return current }}
	go func() {
		b := make([]byte, 1)
		for range 3 {
			_, _ = server.Read(b)
		}
		_, _ = server.Write([]byte("x"))
	}()
	write := func() error { _, err := c.Write([]byte("r")); return err }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	current = false
	for range 2 { // the request under way may be finished
		if err := write(); err != nil {
			t.Fatalf("in the middle of a request: %v", err)
		}
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := write(); !errors.Is(err, connections.ErrMoved) {
		t.Errorf("a new request gets: %v", err)
	}
}

// TestSilentTargetIsTriedLast: it accepts connections and does not answer, as a process that
// hangs.
func TestSilentTargetIsTriedLast(t *testing.T) {
	good := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(good.Close)
	talks, mumbles := good.Listener.Addr().String(), listen(t)
	r := newResolver(t)
	calls := 0
	r.OnChange(func(Reference) { calls++ })
	targets := []string{mumbles, talks}
	r.set(ref, targets)
	before := calls
	p := &prober{resolver: r, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := Direct()(ctx, network, address)
		if address == mumbles && err == nil {
			err = connection.SetDeadline(time.Now()) // times out at once
		}
		return connection, err
	}}
	if reached, err := p.reach(t.Context(), ref, targets); reached != 1 || err == nil {
		t.Errorf("reached %d, %v", reached, err)
	}
	if calls == before {
		t.Error("the change was not reported")
	}
	r.healthOf(ref).mark(mumbles, nil) // another connection was accepted
	for turn := range uint32(4) {
		if first := r.healthOf(ref).order(targets, turn)[0]; first != talks {
			t.Errorf("%s is tried first", first)
		}
	}
	p.dial = Direct()
	if reached, err := p.reach(t.Context(), ref, []string{talks}); reached != 1 || err != nil {
		t.Errorf("reached %d, %v", reached, err)
	}
}
