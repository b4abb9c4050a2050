package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// history records the operations of concurrent clients. Each server that runs is an era.
type history struct {
	began    time.Time
	inFlight sync.RWMutex // read-locked during a request

	mu         sync.Mutex
	operations []porcupine.Operation
	eras       []era
	answered   int
	goal       int
	reached    chan struct{}
	problem    error
}

// era is the time of one server.
type era struct {
	data       uint64 // revision of the data that the server was started with
	version    uint64 // of the list at its begin
	began, end int64
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// record adds an operation that ended just now.
func (h *history) record(client int, call int64, in request, out answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in.era = len(h.eras) - 1
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: h.now()})
	if out.result != unknown {
		h.answered++
	}
	if h.reached != nil && h.answered >= h.goal {
		close(h.reached)
		h.reached = nil
	}
}

// fail records an error that ends the clients.
func (h *history) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = errors.Join(h.problem, err)
}

// await waits until the server has answered n more requests.
func (h *history) await(t *testing.T, n int) {
	t.Helper()
	reached := make(chan struct{})
	h.mu.Lock()
	h.goal, h.reached = h.answered+n, reached
	h.mu.Unlock()
	select {
	case <-reached:
	case <-time.After(harness.Patience):
		t.Fatalf("the clients did not get %d answers: %v", n, h.problem)
	}
}

// begin begins an era with the objects of a list. data is the revision of the data that the
// server was started with. No request is under way.
func (h *history) begin(data uint64, list answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	h.operations = append(h.operations, porcupine.Operation{Input: request{verb: verbBegin, era: len(h.eras)}, Call: now, Output: list, Return: now})
	h.eras = append(h.eras, era{data: data, version: list.version, began: now})
}

// pause waits for the requests to a server that has ended, and ends its era. A
// request without an answer can happen until then, and no later. No other request
// begins before resume.
func (h *history) pause() {
	h.inFlight.Lock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eras[len(h.eras)-1].end = h.now()
}

func (h *history) resume() { h.inFlight.Unlock() }

// readAt records that the objects were those of a list at a moment of an era.
func (h *history) readAt(in int, from, until int64, list answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{Input: request{verb: verbList, era: in}, Call: from, Output: list, Return: until})
}

// eraOf returns the number of the era that has a revision; -1 if it is before all.
func (h *history) eraOf(revision uint64) int {
	for n, e := range slices.Backward(h.eras) {
		if e.data <= revision {
			return n
		}
	}
	return -1
}

// check fails the test if the history is not linearizable.
func (h *history) check(t *testing.T) {
	t.Helper()
	if h.problem != nil {
		t.Fatal(h.problem)
	}
	lost := 0
	for i := range h.operations {
		o := &h.operations[i]
		if o.Output.(answer).result != unknown {
			continue
		}
		lost++
		o.Return = h.eras[o.Input.(request).era].end
	}
	t.Logf("%d operations, %d without an answer, %d servers", len(h.operations), lost, len(h.eras))
	switch porcupine.CheckOperationsTimeout(model(), h.operations, harness.Patience) {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		t.Fatal("the check of the history takes too long")
	}
	_, info := porcupine.CheckOperationsVerbose(model(), h.operations, harness.Patience)
	file := filepath.Join(os.TempDir(), fmt.Sprintf("history-%d.html", os.Getpid()))
	if err := porcupine.VisualizePath(model(), info, file); err != nil {
		t.Error(err)
	}
	t.Fatalf("the history is not linearizable: see %s", file)
}

// user is a client that reads and writes the shared objects.
type user struct {
	id       int
	maps     typedcorev1.ConfigMapInterface
	h        *history
	n        int
	versions [shared]uint64 // that it has seen
	old      answer         // a list
	exact    int            // lists of an old version
}

// The objects' names are this and a number.
const namePrefix = "shared-"

// run makes random requests until ctx ends.
func (u *user) run(ctx context.Context) {
	for ctx.Err() == nil {
		if u.request(ctx) {
			continue
		}
		select { // the server may not run
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// request makes a random request and records it. It returns false without an
// answer.
func (u *user) request(ctx context.Context) bool {
	u.h.inFlight.RLock()
	defer u.h.inFlight.RUnlock()
	in := u.next()
	call := u.h.now()
	out, err := u.do(ctx, in)
	switch {
	case err == nil:
		u.h.record(u.id, call, in, out)
		u.learn(ctx, in, out)
		return true
	case utilnet.IsConnectionRefused(err): // it was not sent
	case isRefusal(err):
		u.h.fail(fmt.Errorf("%+v: %w", in, err))
	case in.verb != verbGet && in.verb != verbList:
		u.h.record(u.id, call, in, answer{result: unknown})
	}
	return false
}

// isRefusal reports whether the server has refused a request that it must not
// refuse.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err)
}

func (u *user) next() request {
	u.n++
	in := request{key: rand.IntN(shared)}
	value := fmt.Sprintf("%d-%d", u.id, u.n)
	switch dice := rand.IntN(20); {
	case dice < 5:
		in.verb = verbGet
	case dice < 8:
		in = request{verb: verbList}
	case dice < 12:
		in.verb, in.value = verbCreate, value
	case dice < 15:
		in.verb, in.value, in.version = verbUpdate, value, u.versions[in.key]
	case dice < 17:
		in.verb, in.value = verbUpdate, value
	case dice < 19:
		in.verb, in.version = verbRemove, u.versions[in.key]
	default:
		in.verb = verbRemove
	}
	return in
}

// do sends a request. Answers that depend on the state are no errors.
func (u *user) do(ctx context.Context, in request) (answer, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: namePrefix + strconv.Itoa(in.key)}, Data: map[string]string{valueKey: in.value}}
	var got *corev1.ConfigMap
	var err error
	switch in.verb {
	case verbGet:
		got, err = u.maps.Get(ctx, object.Name, metav1.GetOptions{})
	case verbList:
		return u.list(ctx, metav1.ListOptions{})
	case verbCreate:
		got, err = u.maps.Create(ctx, object, metav1.CreateOptions{})
	case verbUpdate:
		if in.version != 0 {
			object.ResourceVersion = strconv.FormatUint(in.version, 10)
		}
		got, err = u.maps.Update(ctx, object, metav1.UpdateOptions{})
	default:
		var options metav1.DeleteOptions
		if in.version != 0 {
			text := strconv.FormatUint(in.version, 10)
			options.Preconditions = &metav1.Preconditions{ResourceVersion: &text}
		}
		err = u.maps.Delete(ctx, object.Name, options)
	}
	switch {
	case apierrors.IsNotFound(err):
		return answer{result: notFound}, nil
	case apierrors.IsAlreadyExists(err) && in.verb == verbCreate:
		return answer{result: exists}, nil
	case apierrors.IsConflict(err) && in.version != 0:
		return answer{result: conflict}, nil
	case err != nil:
		return answer{}, err
	}
	out := answer{result: done}
	if got != nil {
		out.value, out.version = got.Data[valueKey], version(got.ResourceVersion)
	}
	return out, nil
}

func (u *user) list(ctx context.Context, options metav1.ListOptions) (answer, error) {
	found, err := u.maps.List(ctx, options)
	if err != nil {
		return answer{}, err
	}
	out := answer{result: done, version: version(found.ResourceVersion)}
	for _, m := range found.Items {
		text, ours := strings.CutPrefix(m.Name, namePrefix)
		if key, err := strconv.Atoi(text); ours && err == nil {
			out.all[key] = item{m.Data[valueKey], version(m.ResourceVersion)}
		}
	}
	return out, nil
}

// learn remembers the versions of an answer. After a list it repeats an older
// one, which must not have changed.
func (u *user) learn(ctx context.Context, in request, out answer) {
	if in.verb != verbList {
		if out.version != 0 {
			u.versions[in.key] = out.version
		}
		return
	}
	for key, i := range out.all {
		if i.version != 0 {
			u.versions[key] = i.version
		}
	}
	if u.old.version == 0 || rand.IntN(4) == 0 {
		u.old = out
		return
	}
	again, err := u.list(ctx, metav1.ListOptions{
		ResourceVersion: strconv.FormatUint(u.old.version, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err): // restored or compacted
		u.old = answer{}
	case err != nil: // no answer
	case again != u.old:
		u.h.fail(fmt.Errorf("the list of version %d was %+v and is %+v", u.old.version, u.old, again))
	default:
		u.exact++
	}
}

// TestLinearizable kills a server, and restores it from backups and from a continuous
// journal, while clients read and write the same few objects. The history of their
// requests is linearizable: each takes effect at one moment between request and answer,
// also across kills. A backup is a read of all objects at one moment. So is what a
// journal has when the server is lost: no later write is in it, and no earlier one is
// missing.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	rounds := count(t, "FAULT_ROUNDS", 4)
	for round := range rounds {
		l.h.await(t, 30+rand.IntN(100)) // the moment of the kill is what is tested
		switch round % 4 {
		case 0:
			l.lose()
		case 1:
			l.killed(nil)
		case 2:
			l.saveBackup()
			l.h.await(t, rand.IntN(50))
			l.killed(nil)
		case 3:
			l.killed(l.restoreBackup)
		}
		t.Logf("round %d of %d", round+1, rounds)
	}
	l.h.await(t, 50)
	l.stop()
	if code := l.server.Stop(); code != 0 {
		t.Errorf("the last server ended with exit code %d", code)
	}
	l.h.pause()
	l.h.check(t)
	exact := 0
	for _, u := range l.users {
		exact += u.exact
	}
	t.Logf("%d lists of an old version", exact)
}

// lab is a server with a journal, and clients that record what they do.
type lab struct {
	*site
	h           *history
	server      *harness.Server
	users       []*user
	stop        func() // the users
	backup      string // file
	destination string // of the journal

	saved struct { // when the backup was made
		era          int
		began, ended int64
	}
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{h: &history{began: time.Now()}, backup: filepath.Join(t.TempDir(), "backup.tar.gz"), destination: filepath.Join(t.TempDir(), "journal")}
	config := harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, interval: 100ms}\n", l.destination))
	l.site = newSite(t, harness.Options{Args: []string{"--config", config}}, 0, 0)
	l.server = l.start()
	l.server.WaitLog("the journal has a new base")
	list := l.list()
	l.h.begin(list.version, list)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for id := range 6 {
		u := &user{id: id, maps: l.maps, h: l.h}
		l.users = append(l.users, u)
		running.Go(func() { u.run(ctx) })
	}
	l.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(l.stop)
	return l
}

// list reads all objects while no client does anything.
func (l *lab) list() answer {
	l.t.Helper()
	list, err := (&user{maps: l.maps}).list(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return list
}

// killed kills the server and starts another one on its data directory, which restore
// has replaced by the data of a revision; nil leaves it as it is.
func (l *lab) killed(restore func() (revision uint64, recorded func(list answer))) {
	l.t.Helper()
	l.server.Kill()
	l.h.pause()
	defer l.h.resume()
	last := len(l.h.eras) - 1
	recorded := func(list answer) { l.h.readAt(last, l.h.eras[last].end, l.h.eras[last].end, list) }
	var data uint64
	if restore != nil {
		data, recorded = restore()
	}
	l.server = l.start()
	list := l.list()
	recorded(list)
	if restore == nil {
		data = list.version
	}
	l.h.begin(data, list)
}

// lose kills the server, removes its data directory and restores it from the journal.
func (l *lab) lose() {
	l.t.Helper()
	l.killed(func() (uint64, func(answer)) {
		if err := os.RemoveAll(l.server.Dir); err != nil {
			l.t.Fatal(err)
		}
		revision := l.restored("--from", l.destination)
		return revision, func(list answer) {
			n := l.h.eraOf(revision)
			if n < 0 && list.all != (answer{}).all {
				l.t.Errorf("the journal ends at revision %d, before the first write, and has %+v", revision, list.all)
			}
			if n >= 0 {
				// The journal may end before the first list of the server: a start does not
				// write these objects.
				list.version = max(revision, l.h.eras[n].version)
				l.h.readAt(n, l.h.eras[n].began, l.h.eras[n].end, list)
			}
		}
	})
}

// saveBackup makes a backup of the running server.
func (l *lab) saveBackup() {
	l.t.Helper()
	l.saved.era, l.saved.began = len(l.h.eras)-1, l.h.now()
	harness.Runs(l.t, harness.ExitOK, "backup", "save", "--data-dir", l.server.Dir, l.backup)
	l.saved.ended = l.h.now()
}

// restoreBackup restores the data directory of a server that has ended, and removes the
// backup and the previous content.
func (l *lab) restoreBackup() (uint64, func(answer)) {
	l.t.Helper()
	saved, revision := l.saved, l.restored(l.backup)
	return revision, func(list answer) {
		list.version = revision
		l.h.readAt(saved.era, saved.began, saved.ended, list)
	}
}

// restored restores the data directory and returns the revision that it then has.
func (l *lab) restored(args ...string) uint64 {
	l.t.Helper()
	out := harness.Runs(l.t, harness.ExitOK, append([]string{"backup", "restore", "--data-dir", l.server.Dir}, args...)...)
	if _, old, found := strings.Cut(strings.TrimSpace(out), "the previous content is in "); found {
		if err := os.RemoveAll(old); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := os.RemoveAll(l.backup); err != nil {
		l.t.Fatal(err)
	}
	return revisionIn(l.t, out)
}
