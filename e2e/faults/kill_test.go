package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// site is a data directory on which servers run one after the other, and
// clients that outlive each of them.
type site struct {
	t       *testing.T
	options harness.Options
	address atomic.Pointer[string]
	maps    typedcorev1.ConfigMapInterface

	writers  []*ledger
	watchers []*watcher
	newest   uint64 // version of any list
}

func newSite(t *testing.T, options harness.Options, writers, watchers int) *site {
	t.Helper()
	if options.Dir == "" {
		options.Dir = filepath.Join(t.TempDir(), "data")
	}
	s := &site{t: t, options: options}
	for i := range writers {
		s.writers = append(s.writers, newLedger(i))
	}
	for range watchers {
		s.watchers = append(s.watchers, &watcher{})
	}
	return s
}

// start starts a server and turns the clients to it.
func (s *site) start() *harness.Server {
	s.t.Helper()
	server := harness.LaunchWith(s.t, s.options)
	server.WaitReady()
	s.use(server)
	return server
}

func (s *site) use(server *harness.Server) {
	s.t.Helper()
	config := server.RESTConfig()
	address := strings.TrimPrefix(config.Host, "https://")
	s.address.Store(&address)
	if s.maps != nil {
		return
	}
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, *s.address.Load())
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.maps = client.CoreV1().ConfigMaps("default")
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	for _, w := range s.watchers {
		w.maps = s.maps
		watching.Go(func() { w.run(ctx) })
	}
	s.t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
}

// write runs all writers until the server or ctx has ended; the
// returned function waits for them.
func (s *site) write(ctx context.Context) (wait func()) {
	errs := make([]error, len(s.writers))
	var writing sync.WaitGroup
	for i, w := range s.writers {
		writing.Go(func() { errs[i] = w.write(ctx, s.maps) })
	}
	return func() {
		s.t.Helper()
		writing.Wait()
		if err := errors.Join(errs...); err != nil {
			s.t.Error(err)
		}
	}
}

// acknowledged returns the number of acknowledged writes.
func (s *site) acknowledged() (n int64) {
	for _, w := range s.writers {
		n += w.made.Load()
	}
	return n
}

// check compares the objects with the acknowledged writes, and waits until the
// watchers have seen them.
func (s *site) check() {
	s.t.Helper()
	list, err := s.maps.List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	now := version(list.ResourceVersion)
	found := map[string][]object{}
	for _, item := range list.Items {
		if writer := item.Data[writerKey]; writer != "" {
			found[writer] = append(found[writer], read(&item))
		}
	}
	for _, w := range s.writers {
		s.newest = max(s.newest, w.newest())
		w.check(s.t, found[w.id])
	}
	if now < s.newest {
		s.t.Errorf("the version went back from %d to %d", s.newest, now)
	}
	s.newest = now
	for _, w := range s.watchers {
		harness.Eventually(s.t, "the watchers have seen what there is", func() error {
			list, err := s.maps.List(s.t.Context(), metav1.ListOptions{}) // the controllers may write too
			if err != nil {
				return err
			}
			versions := map[string]string{}
			for _, item := range list.Items {
				versions[item.Name] = item.ResourceVersion
			}
			return w.sees(versions)
		})
	}
}

// TestKill: kill -9 at random moments, under load and during the start.
func TestKill(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.Options{}, 4, 3)
	rounds := count(t, "FAULT_ROUNDS", 4)
	for round := range rounds {
		if round > 0 && round%3 == 0 {
			early := harness.LaunchWith(t, s.options)
			time.Sleep(rand.N(600 * time.Millisecond)) // the moment is what is tested
			early.Kill()
		}
		server := s.start()
		s.check()
		goal := s.acknowledged() + 20
		wait := s.write(t.Context())
		harness.Eventually(t, "writes are acknowledged", func() error {
			if n := s.acknowledged(); n < goal {
				return fmt.Errorf("%d of %d", n, goal)
			}
			return nil
		})
		time.Sleep(rand.N(700 * time.Millisecond)) // as above
		server.Kill()
		wait()
	}
	server := s.start()
	s.check()
	listed, resumed := 0, 0
	for _, w := range s.watchers {
		listed, resumed = listed+w.listed, resumed+w.resumed
	}
	t.Logf("%d rounds, %d writes, %d lists and %d watches with events, version %d", rounds, s.acknowledged(), listed, resumed, s.newest)
	if code := server.Stop(); code != 0 {
		t.Errorf("the last server ended with exit code %d", code)
	}
}
