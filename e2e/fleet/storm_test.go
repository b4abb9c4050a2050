package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// load writes through all servers, as clients behind a load balancer do, and
// records what was acknowledged.
type load struct {
	t       *testing.T
	cancel  context.CancelFunc
	running sync.WaitGroup
	count   atomic.Int64

	mu           sync.Mutex
	clients      []kubernetes.Interface
	acknowledged map[string]string // name to uid
	answered     map[string]time.Time
	bad          []error
}

func startLoad(t *testing.T, servers []*harness.Server) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{t: t, cancel: cancel, acknowledged: map[string]string{}, answered: map[string]time.Time{}}
	for _, s := range servers {
		l.clients = append(l.clients, clientOf(t, s))
	}
	for writer := range 4 {
		l.running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				l.write(ctx, fmt.Sprintf("storm-%d-%d", writer, i), writer+i)
				pause(ctx, 100*time.Millisecond)
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// clientOf gives up on a request before its writer has waited for long.
func clientOf(t *testing.T, s *harness.Server) kubernetes.Interface {
	t.Helper()
	config := s.RESTConfig()
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// replace makes the load use another process instead of the server.
func (l *load) replace(i int, s *harness.Server) {
	client := clientOf(l.t, s)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients[i] = client
}

// write tries one server after the other until one has acknowledged.
func (l *load) write(ctx context.Context, name string, turn int) {
	for try := 0; ctx.Err() == nil; try++ {
		l.mu.Lock()
		client := l.clients[(turn+try)%len(l.clients)]
		l.mu.Unlock()
		created, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		switch {
		case err == nil:
			l.mu.Lock()
			l.acknowledged[name], l.answered[name] = string(created.UID), time.Now()
			l.mu.Unlock()
			l.count.Add(1)
			return
		case apierrors.IsAlreadyExists(err) && try > 0:
			return // an earlier attempt, which was not acknowledged, has written it
		case ctx.Err() == nil && !retryable(err):
			l.mu.Lock()
			l.bad = append(l.bad, err)
			l.mu.Unlock()
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// pause leaves the processor to the servers, which restart.
func pause(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}

// retryable reports whether a client may retry after the error.
func retryable(err error) bool {
	var network net.Error
	switch {
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.DeadlineExceeded),
		utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), utilnet.IsHTTP2ConnectionLost(err):
		return true
	case strings.Contains(err.Error(), "http2: "), strings.Contains(err.Error(), "stream error: "): // a connection that the server has closed
		return true
	case apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return true
	}
	// What kube-apiserver answers when its etcd does not.
	return apierrors.IsInternalError(err) && (strings.Contains(err.Error(), "etcdserver: ") || strings.Contains(err.Error(), "rpc error") || strings.Contains(err.Error(), "context"))
}

// goesOn waits until more writes are acknowledged.
func (l *load) goesOn(during string) {
	l.t.Helper()
	goal := l.count.Load() + 30
	harness.Eventually(l.t, "writes are acknowledged "+during, func() error {
		if now := l.count.Load(); now < goal {
			return fmt.Errorf("%d of %d", now, goal)
		}
		return nil
	})
}

func (l *load) stop() {
	l.cancel()
	l.running.Wait()
}

// link stands between a server and etcd, and can be cut.
type link struct {
	listener net.Listener
	mu       sync.Mutex
	cut      bool
	open     map[net.Conn]bool
	running  sync.WaitGroup
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, open: map[net.Conn]bool{}}
	l.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			l.running.Go(func() { l.forward(conn, strings.TrimPrefix(to, "http://")) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // it is not used any more
		l.set(true)
		l.running.Wait()
	})
	return l
}

func (l *link) forward(from net.Conn, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil || !l.keep(from, to) {
		_ = from.Close() // as a refused connection
		if err == nil {
			_ = to.Close()
		}
		return
	}
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])        // ends with either side
			_, _ = pair[0].Close(), pair[1].Close() // and ends the other
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, from)
	delete(l.open, to)
}

func (l *link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		l.open[conn] = true
	}
	return !l.cut
}

// set cuts the link, or mends it.
func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for conn := range l.open {
		if cut {
			_ = conn.Close() // it may be closed already
		}
	}
}

// readyIs waits for a result of the server's /readyz.
func readyIs(t *testing.T, s *harness.Server, want bool) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("readyz says %v", want), func() error {
		if err := readyz(t, s); (err == nil) != want {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
}

// readyz sends one request.
func readyz(t *testing.T, s *harness.Server) error {
	t.Helper()
	_, err := clientOf(t, s).Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
	return err
}

// statusIs waits for an output of the command status.
func statusIs(t *testing.T, s *harness.Server, code int, want string) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("status ends with exit code %d", code), func() error {
		out, got := harness.CLI(t, "status", "--data-dir", s.Dir, "-o", "json")
		if got != code || !regexp.MustCompile(want).MatchString(out) {
			return fmt.Errorf("it ends with %d and says %s", got, out)
		}
		return nil
	})
}

// TestAcknowledgedWritesSurviveFailures: three servers on three etcd members keep all acknowledged writes
// while servers, members and connections fail.
func TestAcknowledgedWritesSurviveFailures(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	urls := endpoints(members)
	first := server(t, urls, "")
	var links []*link
	var linked []string
	for _, url := range urls {
		l := newLink(t, url)
		links, linked = append(links, l), append(linked, "http://"+l.listener.Addr().String())
	}
	files := []string{onEtcd(t, urls, ""), onEtcd(t, urls, ""), onEtcd(t, linked, "")}
	servers := []*harness.Server{first}
	for _, file := range files[1:] {
		servers = append(servers, harness.StartIn(t, identityOf(t, first.Dir), "--config", file))
	}
	l := startLoad(t, servers)
	l.goesOn("before anything happens")

	statusIs(t, servers[0], harness.ExitOK, `"garbage-collector-controller"`) // it started first and holds the lease
	if out := servers[1].Status("-o", "json"); strings.Contains(out, "garbage-collector-controller") {
		t.Errorf("a server that does not lead says that it runs controllers:\n%s", out)
	}
	servers[0].Kill()
	l.goesOn("without the leading server")
	createNamespace(t, servers[1], "after-the-leader")
	populated(t, servers[1], "after-the-leader")
	servers[0] = harness.StartIn(t, servers[0].Dir, "--config", files[0])
	l.replace(0, servers[0])

	for _, m := range members {
		m.kill()
		l.goesOn("without an etcd member")
		statusIs(t, servers[0], harness.ExitOK, `"sizeBytes": [1-9]`)
		m.start()
		m.waitHealthy() // otherwise killing the next one would lose the quorum
	}

	for _, link := range links {
		link.set(true)
	}
	readyIs(t, servers[2], false)
	statusIs(t, servers[2], harness.ExitNotReady, "") // it waits for etcd, or held the lease and has ended
	l.goesOn("with a server cut off")
	createNamespace(t, servers[1], "while-cut-off")
	populated(t, servers[1], "while-cut-off")
	for _, link := range links {
		link.set(false)
	}
	harness.Eventually(t, "the server that was cut off is ready", func() error {
		if !servers[2].Running() { // it held the lease and has ended: a service manager would start it again
			servers[2] = harness.StartIn(t, servers[2].Dir, "--config", files[2])
			l.replace(2, servers[2])
		}
		return readyz(t, servers[2])
	})

	for i, s := range servers {
		if code := s.Stop(); code != 0 {
			t.Errorf("server %d ended with exit code %d", i, code)
		}
		servers[i] = harness.StartIn(t, s.Dir, "--config", files[i])
		l.replace(i, servers[i])
		l.goesOn("during a rolling restart")
	}
	createNamespace(t, servers[2], "in-the-end")
	populated(t, servers[2], "in-the-end")
	l.stop()
	verify(t, l, servers)
}

// verify compares the objects that each server returns with the acknowledged
// writes.
func verify(t *testing.T, l *load, servers []*harness.Server) {
	t.Helper()
	for _, err := range l.bad {
		t.Errorf("a client got an error that it cannot retry: %v", err)
	}
	for i, s := range servers {
		list, err := s.Client().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, item := range list.Items {
			found[item.Name] = string(item.UID)
		}
		for name, uid := range l.acknowledged {
			if found[name] != uid {
				t.Errorf("server %d has %q for %s, which was acknowledged as %s", i, found[name], name, uid)
			}
		}
	}
	t.Logf("%d writes were acknowledged", len(l.acknowledged))
}
