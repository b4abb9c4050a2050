package planes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestMemoryLimit: above the limit, the control plane that was used longest ago sleeps before
// another one starts, and one can always be used.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(c *config.ServerConfiguration) { c.Planes.Memory = resource.MustParse("1Mi") })
	for _, name := range []string{"a", "b", "a"} {
		client := h.client(t, name)
		if _, err := h.plane(name); err != nil {
			client = h.create(t, name, nil)
		}
		if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if awake := h.countAwake(); awake > 1 {
			t.Errorf("%d are awake after a request to %s", awake, name)
		}
	}
	// Without requests, the last one sleeps, too.
	eventually(t, "all sleep", func() bool { return h.countAwake() == 0 })
}

func (h *testHost) countAwake() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.awake
}

// TestDescriptorLimit: the open files of the process are counted.
func TestDescriptorLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]bool{1: true, 1 << 20: false} {
		cfg := config.Default()
		cfg.DataDir, cfg.Planes.Descriptors = t.TempDir(), limit
		m := New(Config{Host: cfg})
		if m.exceedsLimits() {
			t.Error("a host without control planes in memory has none to stop")
		}
		m.awake++
		if exceeds := m.exceedsLimits(); exceeds != want {
			t.Errorf("open files of a process are beyond %d: %t", limit, exceeds)
		}
	}
}

// TestFullDisk: a control plane does not start on a disk without room for it: its etcd could end the process.
// The reason outlives a restart of the host.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.disk = func(string) (free, total int64, err error) { return 10 << 20, 1 << 40, nil }
	client := h.create(t, "acme", nil)
	_, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "has only 10 MiB left") {
		t.Errorf("a request is answered: %v", err)
	}
	failed := func(o *object) bool { return strings.Contains(o.Status.Message, "has only 10 MiB left") }
	h.await(t, "acme", failed)
	h = h.restart(t, func(string) {})
	var p *plane
	eventually(t, "the control planes are known", func() bool {
		p, err = h.plane("acme")
		return err == nil
	})
	if status := p.status(); status.Phase != phaseFailed || !failed(&object{Status: status}) {
		t.Errorf("after a restart of the host: %+v", status)
	}
	if _, err := h.client(t, "acme").CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	h.await(t, "acme", func(o *object) bool { return o.Status.Phase == phaseAwake && o.Status.Message == "" })
}

// TestWebhookThatHangs: deletions at the end of lifetimes that wait for a webhook of the host do not
// delay the sleep of other control planes.
func TestWebhookThatHangs(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	addWebhook(t, newClient(t, h.config), "https://"+listener.Addr().String(), admissionv1.Delete,
		admissionv1.Rule{APIGroups: []string{Resource.Group}, APIVersions: []string{"*"}, Resources: []string{Resource.Resource}})
	for _, name := range []string{"a", "b", "c", "d"} {
		h.create(t, name, map[string]any{"lifetime": "1s"})
	}
	h.create(t, "idle", map[string]any{"sleepAfter": "1s"})
	expiring := h.known(t, "d")
	eventually(t, "a deletion waits", expiring.expiring.Load)
	if _, err := h.client(t, "idle").CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	p := h.known(t, "idle")
	eventually(t, "the other one sleeps", func() bool { return p.is(asleep) })
}

// TestLastWrite: after a restart of a host whose ControlPlane is older than its data, the lifetime
// begins with the last write.
func TestLastWrite(t *testing.T) {
	t.Parallel()
	host := config.Default()
	host.DataDir = t.TempDir()
	db := filepath.Join(Dir(host.DataDir, "acme"), "etcd", "member", "snap", "db")
	if err := errors.Join(os.MkdirAll(filepath.Dir(db), 0o700), os.WriteFile(db, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	status := time.Now().Add(-time.Hour).Truncate(time.Second)
	for age, kept := range map[time.Duration]bool{time.Minute: true, 2 * time.Hour: false} {
		written := time.Now().Add(-age)
		if err := os.Chtimes(db, written, written); err != nil {
			t.Fatal(err)
		}
		o := &object{Spec: Spec{Lifetime: Amount{"10m"}}, Status: Status{Made: true, LastUsed: metav1.Time{Time: status}}}
		o.Name = "acme"
		c := &controller{Manager: New(Config{Host: host})}
		p := c.know(o)
		if want := map[bool]time.Time{true: written, false: status}[kept]; !p.lastUsed.Equal(want) {
			t.Errorf("it was last used at %s instead of %s", p.lastUsed, want)
		}
		deleted := false
		remove := func(context.Context, *plane) error { deleted = true; return nil }
		c.running = t.Context()
		c.keep(p, remove)
		if c.work.Wait(); deleted == kept {
			t.Errorf("written %s ago, it is deleted: %t", age, deleted)
		}
		o.Status.Phase = phaseAwake // until the host was killed
		c.planes = map[string]*plane{}
		if age := time.Since(c.know(o).lastUsed); age > time.Minute {
			t.Errorf("one that was awake at the end of the host was last used %s ago", age)
		}
		p.state, deleted = waking, false
		c.keep(p, remove)
		if c.work.Wait(); deleted {
			t.Error("it is deleted while a request waits for its start")
		}
	}
}

// ofAHistogram is what distinguishes the series of one histogram: the first request that fails, say,
// adds all of them.
var ofAHistogram = regexp.MustCompile(`(_bucket|_sum|_count)\b|,?\ble="[^"]*"`)

// series returns the names of the host's metric series, with their labels; one for a histogram.
func (h *testHost) series(t *testing.T) map[string]bool {
	t.Helper()
	text, err := newClient(t, h.config).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if end := strings.LastIndexByte(line, ' '); end > 0 && !strings.HasPrefix(line, "#") {
			series[ofAHistogram.ReplaceAllString(line[:end], "")] = true
		}
	}
	return series
}

// TestSeries: control planes that were awake leave no metric series of their own. The series are
// those of the process, so that it is not parallel to others.
func TestSeries(t *testing.T) {
	h := newHost(t)
	const few, many = 3, 12 // what all have has come with a few
	var last map[string]bool
	first := map[string]int{} // the control plane that a series came with
	for i := range many {
		name := fmt.Sprintf("plane-%d", i)
		addMap(t, h.create(t, name, nil), "one")
		h.sleepNow(t, name)
		last = h.series(t)
		for name := range last {
			if _, known := first[name]; !known {
				first[name] = i
			}
		}
	}
	further := map[string]map[int][]string{} // by metric and control plane
	for name := range last {
		if i := first[name]; i > few {
			metric, _, _ := strings.Cut(name, "{")
			if further[metric] == nil {
				further[metric] = map[int][]string{}
			}
			further[metric][i] = append(further[metric][i], name)
		}
	}
	t.Logf("%d series with %d control planes; metrics with further ones: %d", len(last), many, len(further))
	for metric, series := range further {
		// Others come by chance, as with a request that a stop interrupts, also to some control planes.
		if len(series) >= (many-few-1)/2 {
			t.Errorf("many control planes leave series of %s: %v", metric, series)
		}
	}
}

// TestHistoryEnds: what was replaced before a former sleep, more than five minutes ago, cannot be
// read after a further one.
func TestHistoryEnds(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	client := h.create(t, "acme", nil)
	addMap(t, client, "one")
	maps := client.CoreV1().ConfigMaps("default")
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	then := metav1.ListOptions{ResourceVersion: list.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	addMap(t, client, "two")
	p := h.known(t, "acme")
	for range 2 { // the history is young
		h.sleepNow(t, "acme")
		if _, err := maps.List(t.Context(), then); err != nil {
			t.Fatal(err)
		}
	}
	p.mark.at = time.Now().Add(-historyKept)
	h.sleepNow(t, "acme")
	if _, err := maps.List(t.Context(), then); !apierrors.IsResourceExpired(err) {
		t.Errorf("the old history is there: %v", err)
	}
}
