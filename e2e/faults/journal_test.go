package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// step is one write of a historian; steps are in order.
type step struct {
	name, value string
	version     uint64 // 0 for a deletion, whose answer has no version
	began       time.Time
	answered    time.Time
}

// historian writes its own objects and records the acknowledged writes.
type historian struct {
	id    string
	steps []step
	open  step // without an answer: it may have happened or not
}

// write makes random writes until one is not answered.
func (h *historian) write(ctx context.Context, configMaps typedcorev1.ConfigMapInterface, made *atomic.Int64) {
	var present []string
	for n := 0; ctx.Err() == nil; n++ {
		value, began := strconv.Itoa(n), time.Now()
		var err error
		var answer *corev1.ConfigMap
		switch dice := rand.IntN(10); {
		case len(present) < 3 || dice < 3:
			h.open = step{name: fmt.Sprintf("%s-%d", h.id, n), value: value}
			answer, err = configMaps.Create(ctx, h.object(), metav1.CreateOptions{})
			present = append(present, h.open.name)
		case dice < 8:
			h.open = step{name: present[rand.IntN(len(present))], value: value}
			answer, err = configMaps.Update(ctx, h.object(), metav1.UpdateOptions{})
		default:
			h.open = step{name: present[0]}
			present = present[1:]
			err = configMaps.Delete(ctx, h.open.name, metav1.DeleteOptions{})
		}
		if err != nil {
			return
		}
		if answer != nil {
			h.open.version = version(answer.ResourceVersion)
		}
		h.open.began, h.open.answered = began, time.Now()
		h.steps = append(h.steps, h.open)
		h.open = step{}
		made.Add(1)
	}
}

func (h *historian) object() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: h.open.name}, Data: map[string]string{writerKey: h.id, valueKey: h.open.value}}
}

// check compares the objects with the prefix of the history that ends at a
// revision. Writes that were acknowledged before safe must be in it.
func (h *historian) check(t *testing.T, found map[string]string, revision uint64, safe time.Time) {
	t.Helper()
	last := -1 // the last step that is surely in the prefix
	for i, s := range h.steps {
		if s.version != 0 && s.version <= revision {
			last = i
		}
		if s.version > revision && s.answered.Before(safe) {
			t.Errorf("the write of %s at revision %d was acknowledged %s before what was reported as journaled, and the journal ends at revision %d", s.name, s.version, safe.Sub(s.answered), revision)
		}
	}
	want, either := map[string]string{}, map[string]bool{}
	for i, s := range h.steps {
		switch {
		case i <= last && s.value == "":
			delete(want, s.name)
		case i <= last:
			want[s.name] = s.value
		case s.version == 0 && noVersionBetween(h.steps[last+1:i]):
			either[s.name] = true // a deletion directly after the prefix
		}
	}
	if h.open.name != "" && noVersionBetween(h.steps[last+1:]) {
		either[h.open.name] = true
	}
	for name, value := range want {
		if got, exists := found[name]; !either[name] && (!exists || got != value) {
			t.Errorf("revision %d: %s has the value %q (exists: %t), want %q", revision, name, got, exists, value)
		}
	}
	for name, value := range found {
		if _, wanted := want[name]; !wanted && !either[name] {
			t.Errorf("revision %d: %s has the value %q and should not exist", revision, name, value)
		}
	}
}

func noVersionBetween(steps []step) bool {
	for _, s := range steps {
		if s.version != 0 {
			return false
		}
	}
	return true
}

// drill is a server with a journal in S3, which is destroyed and restored
// repeatedly.
type drill struct {
	t          *testing.T
	store      *harness.S3
	gate       *harness.Gate
	config     string
	historians []*historian // of the last round
	reports    []report     // as above
	restored   uint64       // the revision after it
}

// report is the last revision that the server has reported as journaled until a time.
type report struct {
	at       time.Time
	revision uint64
}

var (
	restoredAt  = regexp.MustCompile(`as of revision (\d+)`)
	journaledAt = regexp.MustCompile(`revision \d+ of (\S+ \S+) with \d+ objects: \d+ changes were replayed`)
)

// restore makes a data directory. It returns its revision, and the time of that in the
// journal.
func (d *drill) restore(dir string, flags ...string) (uint64, time.Time) {
	d.t.Helper()
	args := append([]string{"backup", "restore", "--data-dir", dir, "--from", d.store.URL("mini"), "--endpoint", d.gate.URL, "--region", "us-east-1"}, flags...)
	out, code := harness.CLIWith(d.t, d.store.Env, args...)
	if code != 0 {
		d.t.Fatalf("%q exits with %d: %s", args, code, out)
	}
	match := journaledAt.FindStringSubmatch(out)
	if match == nil {
		d.t.Fatalf("%q names no time: %s", args, out)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05.000", match[1], time.Local)
	if err != nil {
		d.t.Fatal(err)
	}
	return revisionIn(d.t, out), at
}

// remove removes a data directory, which has 64 MB of preallocated log: those of all
// rounds and moments would take 20 GB.
func (d *drill) remove(dir string) {
	d.t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		d.t.Fatal(err)
	}
}

// revisionIn is the revision in the output of a restore.
func revisionIn(t *testing.T, out string) uint64 {
	t.Helper()
	match := restoredAt.FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("the restore names no revision: %s", out)
	}
	return version(match[1])
}

// check compares the server's objects with the historians' records.
func (d *drill) check(s *harness.Server, revision uint64, safe time.Time) {
	d.t.Helper()
	list, err := s.Client().CoreV1().ConfigMaps("default").List(d.t.Context(), metav1.ListOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	found := map[string]map[string]string{}
	for _, item := range list.Items {
		id := item.Data[writerKey]
		if found[id] == nil {
			found[id] = map[string]string{}
		}
		found[id][item.Name] = item.Data[valueKey]
	}
	for _, h := range d.historians {
		h.check(d.t, found[h.id], revision, safe)
	}
}

// reportedSafe is the moment before which everything is journaled, as the server
// says.
func reportedSafe(t *testing.T, s *harness.Server) time.Time {
	t.Helper()
	asked := time.Now()
	var status struct {
		Journal struct{ LagSeconds float64 }
	}
	if err := json.Unmarshal([]byte(s.Status("-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	return asked.Add(-time.Duration(status.Journal.LagSeconds * float64(time.Second)))
}

// TestJournal destroys a server under load at random moments, kill -9 and all
// of its disk, and restores it from S3 that fails at random. The restored
// objects are a prefix of the history, with all writes that were acknowledged
// before the reported lag.
func TestJournal(t *testing.T) {
	t.Parallel()
	d := &drill{t: t, store: harness.StartS3(t)}
	d.gate = harness.NewGate(t, d.store.Endpoint)
	d.config = harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, endpoint: %q, region: us-east-1, credentialsFile: %q, interval: 200ms}\n",
		d.store.URL("mini"), d.gate.URL, d.store.CredentialsFile))
	dir := filepath.Join(t.TempDir(), "data")
	server := harness.StartIn(t, dir, "--config", d.config)
	d.gate.FailAtRandom(10)
	rounds, total := count(t, "FAULT_ROUNDS", 2), int64(0)
	for round := range rounds {
		safe, made := d.live(server, round)
		total += made
		d.remove(dir)
		dir = filepath.Join(t.TempDir(), "data")
		d.restored, _ = d.restore(dir)
		server = harness.StartIn(t, dir, "--config", d.config)
		d.check(server, d.restored, safe)
		if t.Failed() {
			t.FailNow()
		}
		t.Logf("round %d of %d: restored at revision %d, %d writes so far", round+1, rounds, d.restored, total)
	}
	d.gate.Fail(false)
	server.Stop()
	chain := d.chain(rounds + 1)
	d.anyRevision(chain, count(t, "FAULT_MOMENTS", 1))
	d.anyTime(chain, count(t, "FAULT_MOMENTS", 2))
}

// live writes to the server, at least a few times, and kills it at a random
// moment. It returns the time before which everything was reported as journaled,
// and the number of writes.
func (d *drill) live(server *harness.Server, round int) (safe time.Time, made int64) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	var clients sync.WaitGroup
	var answered atomic.Int64
	configMaps := server.Client().CoreV1().ConfigMaps("default")
	d.historians, d.reports = nil, nil
	for i := range 4 {
		h := &historian{id: fmt.Sprintf("r%d-%d", round, i)}
		d.historians = append(d.historians, h)
		clients.Go(func() { h.write(ctx, configMaps, &answered) })
	}
	clients.Go(func() { d.poll(ctx, server.Client().RESTClient()) })
	harness.Eventually(d.t, "writes are acknowledged", func() error {
		if n := answered.Load(); n < 40 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	time.Sleep(rand.N(1500 * time.Millisecond)) // the moment is what is tested
	safe = reportedSafe(d.t, server)
	server.Kill()
	cancel()
	clients.Wait()
	return safe, answered.Load()
}

// poll records what the server reports as journaled, until it ends.
func (d *drill) poll(ctx context.Context, server rest.Interface) {
	for ctx.Err() == nil {
		text, err := server.Get().AbsPath("/kube-hyper-mini/status").DoRaw(ctx)
		var status struct{ Journal struct{ Revision uint64 } }
		if err == nil {
			err = json.Unmarshal(text, &status)
		}
		if err != nil {
			return
		}
		d.reports = append(d.reports, report{time.Now(), status.Journal.Revision})
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// window is a chain in the output of `backup list`.
type window struct {
	From, To                    time.Time
	FirstRevision, LastRevision uint64
	HasBase                     bool
	Gaps                        []string
}

// chain returns the chain of the last round. All chains must be whole, and no server has
// begun more than one.
func (d *drill) chain(servers int) window {
	d.t.Helper()
	args := []string{"backup", "list", "--from", d.store.URL("mini"), "--endpoint", d.store.Endpoint, "--region", "us-east-1", "-o", "json"}
	out, code := harness.CLIWith(d.t, d.store.Env, args...)
	var windows []window
	if err := json.Unmarshal([]byte(out), &windows); code != 0 || err != nil {
		d.t.Fatalf("%q exits with %d: %s, %v", args, code, out, err)
	}
	if len(windows) > servers {
		d.t.Errorf("%d servers have begun %d chains: %s", servers, len(windows), out)
	}
	var last window
	for _, w := range windows {
		if w.HasBase && len(w.Gaps) > 0 {
			d.t.Errorf("a chain is not whole: %+v", w)
		}
		if w.HasBase && w.FirstRevision <= d.restored && d.restored <= w.LastRevision {
			last = w
		}
	}
	if last.LastRevision == 0 {
		d.t.Fatalf("no chain has the revision %d, which was restored: %s", d.restored, out)
	}
	return last
}

// anyRevision restores random revisions of the last round.
func (d *drill) anyRevision(chain window, moments int) {
	d.t.Helper()
	var versions []uint64
	for _, h := range d.historians {
		for _, s := range h.steps {
			if s.version >= chain.FirstRevision && s.version <= d.restored {
				versions = append(versions, s.version)
			}
		}
	}
	for range min(moments, len(versions)) {
		revision := versions[rand.IntN(len(versions))]
		dir := filepath.Join(d.t.TempDir(), "data")
		if got, _ := d.restore(dir, "--revision", strconv.FormatUint(revision, 10)); got != revision {
			d.t.Errorf("revision %d was restored, want %d", got, revision)
		}
		server := harness.StartIn(d.t, dir)
		d.check(server, revision, time.Time{})
		server.Stop()
		d.remove(dir)
	}
}

// anyTime restores random moments of the last round: the last revision that has at most
// that time in the journal. It has everything that was reported as journaled before, and
// nothing that was begun later.
func (d *drill) anyTime(chain window, moments int) {
	d.t.Helper()
	first, after := chain.From.Truncate(time.Millisecond).Add(time.Millisecond), time.Duration(0)
	for range moments {
		at := first.Add(rand.N(max(0, chain.To.Sub(first)) + time.Millisecond)).Truncate(time.Millisecond)
		dir := filepath.Join(d.t.TempDir(), "data")
		revision, stamp := d.restore(dir, "--at", at.UTC().Format(time.RFC3339Nano))
		if stamp.After(at) {
			d.t.Errorf("at %s: revision %d was restored, which is of %s", at, revision, stamp)
		}
		if revision < d.restored {
			next := filepath.Join(d.t.TempDir(), "next")
			if _, stamp := d.restore(next, "--revision", strconv.FormatUint(revision+1, 10)); !stamp.After(at) {
				d.t.Errorf("at %s: revision %d was restored, and the next one is of %s", at, revision, stamp)
			}
			d.remove(next)
		}
		for _, r := range d.reports {
			if !r.at.After(at) && r.revision > revision {
				d.t.Errorf("at %s: revision %d was restored, and %d was reported as journaled at %s", at, revision, r.revision, r.at)
			}
		}
		for _, h := range d.historians {
			for _, s := range h.steps {
				if s.version != 0 && s.version <= revision && !s.began.Before(at.Add(time.Millisecond)) {
					d.t.Errorf("at %s: revision %d was restored, and has the write of %s that began at %s", at, revision, s.name, s.began)
				}
				if s.version > revision && s.version <= d.restored {
					after = max(after, at.Sub(s.answered))
				}
			}
		}
		server := harness.StartIn(d.t, dir)
		d.check(server, revision, time.Time{})
		server.Stop()
		d.remove(dir)
	}
	d.t.Logf("%d moments from %s to %s; a write has the time of its acknowledgement, or at most %s more", moments, first, chain.To, after)
}
