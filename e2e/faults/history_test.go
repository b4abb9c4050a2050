package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// history records the operations of concurrent clients.
type history struct {
	began    time.Time
	inFlight sync.RWMutex // read-locked during a request

	mu         sync.Mutex
	operations []porcupine.Operation
	ends       []int64 // when a server had ended
	answered   int
	goal       int
	reached    chan struct{}
	problem    error
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// record adds an operation that ended just now.
func (h *history) record(client int, call int64, in request, out answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
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

// ended waits for the requests to a server that has ended, and records its end. A
// request without an answer can happen until then, and no later.
func (h *history) ended() {
	h.inFlight.Lock()
	defer h.inFlight.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = append(h.ends, h.now())
}

// until returns until when a request without an answer can happen, whose client
// gave up at a time.
func (h *history) until(gaveUp int64) int64 {
	for _, end := range h.ends {
		if end >= gaveUp {
			return end
		}
	}
	return math.MaxInt64
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
		o.Return = h.until(o.Return)
	}
	t.Logf("%d operations, %d without an answer, %d servers", len(h.operations), lost, len(h.ends))
	switch porcupine.CheckOperationsTimeout(model(), h.operations, harness.Patience) {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		t.Skip("the check of the history takes too long")
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

// TestLinearizable kills and restores a server while clients read and write the
// same few objects, and checks that the history of their requests is
// linearizable: each takes effect at one moment between request and answer, also
// across kills. A backup is a read of all objects at one moment, and a restore
// writes what it has read.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	if os.Getenv("FAULT_ROUNDS") == "" {
		t.Skip("only at length: set FAULT_ROUNDS")
	}
	for left := count(t, "FAULT_ROUNDS", 1); left > 0; left -= historyRounds {
		t.Run(fmt.Sprintf("%d rounds left", left), func(t *testing.T) { oneHistory(t, min(left, historyRounds)) })
	}
}

// historyRounds is how many rounds one history has: the check of 100 rounds in one takes
// more than minutes.
const historyRounds = 10

// oneHistory kills and restores a new server in so many rounds, and checks the history.
func oneHistory(t *testing.T, rounds int) {
	s := newSite(t, harness.Options{}, 0, 0)
	h := &history{began: time.Now()}
	server := s.start()
	var users []*user
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	stop := func() {
		cancel()
		running.Wait()
	}
	defer stop()
	for id := range 6 {
		u := &user{id: id, maps: s.maps, h: h}
		users = append(users, u)
		running.Go(func() { u.run(ctx) })
	}
	archive := filepath.Join(t.TempDir(), "archive.tar.gz")
	for round := range rounds {
		h.await(t, 30+rand.IntN(100)) // the moment of the kill is what is tested
		if round%3 == 1 {
			call := h.now()
			harness.Runs(t, harness.ExitOK, "backup", "save", "--data-dir", server.Dir, archive)
			h.record(len(users), call, request{verb: verbSave}, answer{})
			h.await(t, rand.IntN(50))
		}
		server.Kill()
		h.ended()
		if round%3 == 2 {
			restoreFrom(t, h, len(users), server.Dir, archive)
		}
		server = s.start()
		t.Logf("round %d of %d", round+1, rounds)
	}
	h.await(t, 50)
	stop()
	if code := server.Stop(); code != 0 {
		t.Errorf("the last server ended with exit code %d", code)
	}
	h.ended()
	h.check(t)
	exact := 0
	for _, u := range users {
		exact += u.exact
	}
	t.Logf("%d lists of an old version", exact)
}

// restoreFrom restores the data directory of a server that has ended, and
// removes the archive and the previous content.
func restoreFrom(t *testing.T, h *history, client int, dir, archive string) {
	t.Helper()
	call := h.now()
	restored := harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", dir, archive)
	h.record(client, call, request{verb: verbRestore}, answer{})
	_, old, found := strings.Cut(strings.TrimSpace(restored), "the previous content is in ")
	if !found {
		t.Fatalf("no previous content: %s", restored)
	}
	for _, path := range []string{archive, old} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}
