package planes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// changes counts the changes of the state in a time.
func (p *plane) changes(during time.Duration) (n int) {
	for end := time.After(during); ; n++ {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-end:
			return n
		}
	}
}

// TestFailedArchive: a deletion without its archive says why, and is tried again ever less often.
func TestFailedArchive(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	addMap(t, h.create(t, "acme", map[string]any{"deletion": deletionArchive}), "one")
	p, err := h.plane("acme")
	if err != nil {
		t.Fatal(err)
	}
	h.await(t, "acme", func(o *object) bool { return o.Status.Made })
	dir := BackupDir(h.Manager.config.Host, "acme")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.objects.Delete(t.Context(), "acme", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	failed := func(o *object) bool { return strings.Contains(o.Status.Message, "set spec.deletion to Delete") }
	h.await(t, "acme", failed)
	if n := p.changes(time.Second); n > 50 { // two for each
		t.Errorf("the state changes %d times in a second", n)
	}
	h.await(t, "acme", failed)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	h.awaitGone(t, "acme")
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
	p, err := h.plane("acme")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.dir(), p.dir()+".away"); err != nil {
		t.Fatal(err)
	}
	if err := h.objects.Delete(t.Context(), "acme", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
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
