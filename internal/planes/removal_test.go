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
	eventually(t, "it is archived and gone", func() bool {
		_, err := h.plane("acme")
		return err != nil
	})
}
