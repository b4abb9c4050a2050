package planes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// changes counts the changes of the state in a time.
func (p *plane) changes(during time.Duration) (n int) {
	for end := time.After(during); ; n++ {
		p.mu.Lock()
		changed := p.change()
		p.mu.Unlock()
		select {
		case <-changed:
		case <-end:
			return n
		}
	}
}

// refusals sends requests for a time to a control plane whose deletion fails, and returns an error
// if it is not the reason that they get.
func refusals(ctx context.Context, client kubernetes.Interface, during time.Duration) error {
	for end := time.Now().Add(during); time.Now().Before(end); {
		_, err := client.CoreV1().ConfigMaps("default").Get(ctx, "one", metav1.GetOptions{})
		if err == nil {
			return errors.New("a request meanwhile is served")
		}
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "set spec.deletion to Delete") {
			return fmt.Errorf("a request meanwhile: %w", err)
		}
	}
	return nil
}

// TestFailedArchive: a deletion without its archive says why, also to requests, and is tried again
// ever less often whatever they are.
func TestFailedArchive(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	addMap(t, h.create(t, "acme", map[string]any{"deletion": deletionArchive}), "one")
	p := h.known(t, "acme")
	h.await(t, "acme", func(o *object) bool { return o.Status.Made })
	dir := h.preventBackups(t, "acme")
	h.delete(t, "acme")
	failed := func(o *object) bool { return strings.Contains(o.Status.Message, "set spec.deletion to Delete") }
	h.await(t, "acme", failed)
	quiet := make(chan error, 1)
	go func() { quiet <- refusals(t.Context(), h.client(t, "acme"), time.Second) }()
	if n := p.changes(time.Second); n > 50 { // two for each
		t.Errorf("the state changes %d times in a second", n)
	}
	if err := <-quiet; err != nil {
		t.Error(err)
	}
	h.await(t, "acme", failed)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	h.awaitGone(t, "acme")
}

// preventBackups puts a file, which it returns, in the way of the backups of a control plane.
func (h *testHost) preventBackups(t *testing.T, name string) string {
	t.Helper()
	dir := BackupDir(h.Manager.config.Host, name)
	// A server of the control plane may have made the directory.
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Dir(dir), 0o700), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestWaitForRoom: control planes that wait for room are deleted, and new ones are made meanwhile. A start
// whose request has gone does not wait.
func TestWaitForRoom(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(c *config.ServerConfiguration) { c.Planes.MaxAwake = 1 })
	h.create(t, "busy", nil)
	busy := h.known(t, "busy")
	_, done, err := busy.use(t.Context(), func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var requests sync.WaitGroup
	request := func(name string) {
		client := h.create(t, name, nil)
		requests.Go(func() {
			if _, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err == nil {
				t.Errorf("%s answers", name)
			}
		})
		p := h.known(t, name)
		eventually(t, name+" starts", func() bool { return p.is(waking) })
	}
	var names []string
	for i := range reconcilers + 1 {
		names = append(names, fmt.Sprintf("plane-%d", i))
		request(names[i])
	}
	for _, name := range names {
		h.delete(t, name)
	}
	for _, name := range names {
		h.awaitGone(t, name)
	}
	request("new")
	leave()
	requests.Wait()
	eventually(t, "the start without a request ends", func() bool {
		p, err := h.plane("new")
		return err == nil && p.is(asleep)
	})
}

// TestArchiveOfMissing: a control plane whose directory has gone is not deleted without its archive,
// and is if it never had one, or if a former process has archived it.
func TestArchiveOfMissing(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	archive := map[string]any{"deletion": deletionArchive}
	h.create(t, "unused", archive)
	h.remove(t, "unused")

	addMap(t, h.create(t, "acme", archive), "one")
	h.await(t, "acme", func(o *object) bool { return o.Status.Made })
	h.sleepNow(t, "acme")
	p := h.known(t, "acme")
	if err := os.Rename(p.dir(), p.dir()+".away"); err != nil {
		t.Fatal(err)
	}
	h.delete(t, "acme")
	o := h.await(t, "acme", func(o *object) bool { return !o.DeletionTimestamp.IsZero() && o.Status.Message != "" })
	if message := o.Status.Message; !strings.Contains(message, "put it back") || !strings.Contains(message, "to Delete") {
		t.Error(message)
	}
	if err := os.Rename(p.dir()+".away", p.dir()); err != nil {
		t.Fatal(err)
	}
	h.awaitGone(t, "acme")
	if err := p.archived(o.DeletionTimestamp.Time); err != nil {
		t.Errorf("it was archived: %v", err)
	}
	if err := p.archived(time.Now().Add(time.Minute)); err == nil {
		t.Error("an archive of a former control plane is taken for its own")
	}
}

// TestOtherFinalizers: a ControlPlane that waits for the finalizer of somebody else says that its data
// is removed, and requests do not wait for it.
func TestOtherFinalizers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	addMap(t, h.create(t, "acme", nil), "one")
	h.await(t, "acme", func(o *object) bool { return o.Status.Made })
	finalizers := func(text string) {
		patch := []byte(`{"metadata":{"finalizers":` + text + `}}`)
		if _, err := h.objects.Patch(t.Context(), "acme", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	finalizers(`["` + finalizer + `","example.com/other"]`)
	h.delete(t, "acme")
	o := h.await(t, "acme", func(o *object) bool { return strings.Contains(o.Status.Message, "its data is removed") })
	if meta.IsStatusConditionTrue(o.Status.Conditions, "Ready") || o.Status.Made || o.Status.Phase != phaseFailed {
		t.Errorf("status %+v", o.Status)
	}
	_, err := h.client(t, "acme").CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), errDeleting.Error()) {
		t.Errorf("a request gets %v", err)
	}
	finalizers(`[]`)
	h.awaitGone(t, "acme")
}
