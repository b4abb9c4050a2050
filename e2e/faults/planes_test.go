package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

var controlPlanes = schema.GroupVersionResource{
	Group: "planes.kube-hyper-mini.io", Version: "v1alpha1", Resource: "controlplanes",
}

// manyPlanes is the configuration of a server with control planes: few are awake, so that the use
// of one puts another to sleep.
const manyPlanes = "planes: {enabled: true, sleepAfter: 1s, maxAwake: 3}\n"

// planeOf returns the config maps in the namespace default of a control plane.
func planeOf(t *testing.T, s *harness.Server, name string) typedcorev1.ConfigMapInterface {
	t.Helper()
	config := s.RESTConfig()
	config.Host += "/clusters/" + name
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().ConfigMaps("default")
}

// newPlane returns a ControlPlane, a copy of another one unless from is empty.
func newPlane(name, from string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(controlPlanes.GroupVersion().WithKind("ControlPlane"))
	o.SetName(name)
	if from != "" {
		o.Object["spec"] = map[string]any{"from": map[string]any{"controlPlane": from}}
	}
	return o
}

// eventuallyPut creates a config map in a control plane, as soon as it is made.
func eventuallyPut(t *testing.T, s *harness.Server, plane, name string) {
	t.Helper()
	harness.Eventually(t, "the control plane "+plane+" takes "+name, func() error {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := planeOf(t, s, plane).Create(t.Context(), o, metav1.CreateOptions{})
		return err
	})
}

// life is what one client knows of a control plane that nobody else writes to: between two kills
// it exists or not, and has the config maps token-1, token-2 and so on.
type life struct {
	name, token string // the token is another one after a deletion
	exists      bool
	writes      int // acknowledged
	origin      *life
	copied      int    // writes of origin when the copy was ordered
	opened      string // the request in flight
	stays       bool   // it is never deleted
	lives       int
	copyable    atomic.Int64 // is writes, for those who copy it
}

// The requests in flight at a kill.
const (
	opCreate = "create"
	opCopy   = "copy"
	opDelete = "delete"
	opWrite  = "write"
)

// killer kills a server with control planes while clients make, use, copy and delete them.
type killer struct {
	t     *testing.T
	dir   string
	seed  uint64
	lives []*life
	kills map[string]int // by the request in flight
	done  map[string]int // acknowledged
	mu    sync.Mutex     // of done
}

// TestKillWithPlanes: kill -9 at random moments of the lives of control planes: what was
// acknowledged is there, each control plane starts, and nothing half-made is left.
func TestKillWithPlanes(t *testing.T) {
	t.Parallel()
	k := &killer{
		t: t, dir: filepath.Join(t.TempDir(), "data"), seed: uint64(count(t, "FAULT_SEED", int(rand.Int32N(1<<30))+1)),
		kills: map[string]int{}, done: map[string]int{},
	}
	t.Logf("FAULT_SEED=%d", k.seed)
	for i := range 6 {
		k.lives = append(k.lives, &life{name: fmt.Sprintf("plane-%d", i), stays: i < 2})
	}
	rounds := count(t, "FAULT_ROUNDS", 2)
	config := harness.ConfigFile(t, manyPlanes)
	for round := range rounds {
		random := rand.New(rand.NewPCG(k.seed, uint64(round)))
		server := harness.StartIn(t, k.dir, "--config", config)
		k.check(server)
		wait := k.live(server, round)
		goal := k.acknowledged() + random.IntN(20)
		harness.Eventually(t, "requests are acknowledged", func() error {
			if n := k.acknowledged(); n < goal && !t.Failed() {
				return fmt.Errorf("%d of %d", n, goal)
			}
			return nil
		})
		time.Sleep(time.Duration(random.Int64N(int64(time.Second)))) // the moment is what is tested
		server.Kill()
		wait()
		if t.Failed() {
			t.Fatalf("after %d rounds", round+1)
		}
	}
	server := harness.StartIn(t, k.dir, "--config", config)
	k.check(server)
	t.Logf("%d kills, with requests in flight %v; acknowledged %v", rounds, k.kills, k.done)
	if code := server.Stop(); code != 0 {
		t.Errorf("the last server ended with exit code %d", code)
	}
}

// acknowledged returns the number of acknowledged requests.
func (k *killer) acknowledged() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, number := range k.done {
		n += number
	}
	return n
}

// live runs a client of each control plane until the server has ended; the returned function waits
// for them.
func (k *killer) live(server *harness.Server, round int) (wait func()) {
	ctx, cancel := context.WithCancel(k.t.Context())
	var clients sync.WaitGroup
	for i, l := range k.lives {
		objects, maps := server.Dynamic().Resource(controlPlanes), planeOf(k.t, server, l.name)
		random := rand.New(rand.NewPCG(k.seed, uint64(round)<<8+uint64(i)+1))
		clients.Go(func() {
			for ctx.Err() == nil {
				l.opened = k.choose(l, random)
				err := k.act(l, objects, maps)
				if status := apierrors.APIStatus(nil); errors.As(err, &status) || errors.Is(err, context.DeadlineExceeded) {
					k.t.Errorf("%s: %s: %v", l.name, l.opened, err)
				}
				if err != nil {
					return // the server is killed
				}
				k.mu.Lock()
				k.done[l.opened]++
				k.mu.Unlock()
				l.opened = ""
				if random.IntN(3) == 0 { // long enough to fall asleep
					select {
					case <-time.After(time.Duration(random.Int64N(int64(2 * time.Second)))):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	return func() {
		cancel()
		clients.Wait()
		for _, l := range k.lives {
			k.kills[cmp.Or(l.opened, "none")]++
		}
	}
}

// choose returns what the client of a control plane does next.
func (k *killer) choose(l *life, random *rand.Rand) string {
	switch {
	case l.exists && !l.stays && random.IntN(3) == 0:
		return opDelete
	case l.exists:
		return opWrite
	}
	l.lives++
	l.token, l.writes, l.origin, l.copied = fmt.Sprintf("%s.%d", l.name, l.lives), 0, nil, 0
	if origin := k.lives[random.IntN(2)]; !l.stays && random.IntN(2) == 0 && origin.copyable.Load() > 0 {
		l.origin, l.copied = origin, int(origin.copyable.Load())
		return opCopy
	}
	return opCreate
}

// act does it. It returns an error of the API only for what should not happen.
func (k *killer) act(l *life, objects dynamic.ResourceInterface, maps typedcorev1.ConfigMapInterface) error {
	ctx := context.WithoutCancel(k.t.Context())
	poll := func(condition func() (bool, error)) error {
		return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, harness.Patience, true,
			func(context.Context) (bool, error) { return condition() })
	}
	switch l.opened {
	case opWrite:
		name := fmt.Sprintf("%s-%d", l.token, l.writes+1)
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil {
			l.writes++
			l.copyable.Store(int64(l.writes))
		}
		return err
	case opDelete:
		if err := objects.Delete(ctx, l.name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		l.exists = false
		err := poll(func() (bool, error) {
			_, err := objects.Get(ctx, l.name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), utilerrors.FilterOut(err, apierrors.IsNotFound)
		})
		if err == nil {
			l.token = ""
		}
		return err
	}
	o := newPlane(l.name, "")
	if l.origin != nil {
		o = newPlane(l.name, l.origin.name)
	}
	o.SetAnnotations(map[string]string{"token": l.token})
	if _, err := objects.Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return err
	}
	l.exists = true
	return poll(func() (bool, error) { // until it is made
		_, err := maps.List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil, utilerrors.FilterOut(err, apierrors.IsNotFound)
	})
}

// check compares the control planes with what was acknowledged, and settles the open requests.
func (k *killer) check(server *harness.Server) {
	k.t.Helper()
	objects := server.Dynamic().Resource(controlPlanes)
	list, err := objects.List(k.t.Context(), metav1.ListOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	found := map[string]unstructured.Unstructured{}
	for _, o := range list.Items {
		found[o.GetName()] = o
	}
	var names []string
	for _, l := range k.lives {
		o, there := found[l.name]
		switch {
		case !there && l.exists && l.opened != opDelete:
			k.t.Errorf("%s was acknowledged and is not there", l.name)
		case there && o.GetAnnotations()["token"] != l.token:
			k.t.Errorf("%s is %s, the newest one that was ordered is %s", l.name, o.GetAnnotations()["token"], l.token)
		case there && o.GetDeletionTimestamp() == nil && !l.exists && l.opened == opDelete:
			k.t.Errorf("the deletion of %s was acknowledged and did not happen", l.name)
		}
		if l.exists = there && o.GetDeletionTimestamp() == nil; l.exists {
			names = append(names, l.name)
			l.check(k.t, planeOf(k.t, server, l.name))
		} else {
			l.token = ""
		}
		l.opened = ""
	}
	harness.Eventually(k.t, "the directories are those of the control planes", func() error {
		entries, err := os.ReadDir(filepath.Join(k.dir, "planes"))
		if err != nil {
			return err
		}
		var got []string
		for _, entry := range entries {
			got = append(got, entry.Name())
		}
		var want []string
		for _, name := range names {
			want = append(want, name, name+".uid") // which says whose the directory is
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Errorf("there are %v, want %v", got, want)
		}
		list, err := objects.List(k.t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) != len(names) {
			err = fmt.Errorf("there are %d ControlPlanes", len(list.Items))
		}
		return err
	})
}

// check compares the objects of a control plane with the acknowledged writes.
func (l *life) check(t *testing.T, maps typedcorev1.ConfigMapInterface) {
	t.Helper()
	var list *corev1.ConfigMapList
	harness.Eventually(t, l.name+" starts", func() (err error) {
		list, err = maps.List(t.Context(), metav1.ListOptions{})
		return err
	})
	found := map[string]bool{}
	for _, item := range list.Items {
		found[item.Name] = item.Name != "kube-root-ca.crt"
	}
	// take returns how many of the writes with the token, from the first one on, are there.
	take := func(token string) (n int) {
		for found[fmt.Sprintf("%s-%d", token, n+1)] {
			n++
			found[fmt.Sprintf("%s-%d", token, n)] = false
		}
		return n
	}
	n := take(l.token)
	if n != l.writes && (l.opened != opWrite || n != l.writes+1) {
		t.Errorf("%s has %d writes, %d are acknowledged", l.name, n, l.writes)
	}
	l.writes = n
	l.copyable.Store(int64(n))
	if l.origin != nil {
		if n := take(l.origin.token); n < l.copied {
			t.Errorf("%s has %d of the writes of %s, of which it was to copy %d", l.name, n, l.origin.name, l.copied)
		}
	}
	for name, unexpected := range found {
		if unexpected {
			t.Errorf("%s has %s, which nobody wrote to it", l.name, name)
		}
	}
}
