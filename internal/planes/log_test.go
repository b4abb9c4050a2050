package planes

import (
	"os"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// TestWarnings: the warnings of a control plane are those of its former servers too, and those that
// the manager has about it, and no others.
func TestWarnings(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	acme := h.create(t, "acme", map[string]any{"backup": map[string]any{"schedule": "@every 1h"}})
	addMap(t, acme, "one")
	h.create(t, "beta", nil)
	p, err := h.plane("acme")
	if err != nil {
		t.Fatal(err)
	}
	other, err := h.plane("beta")
	if err != nil {
		t.Fatal(err)
	}
	p.log().Warn("of the first server")
	h.sleepNow(t, "acme")
	if other.logger != nil {
		t.Error("one that was never awake has a log")
	}

	h.preventBackups(t, "acme")
	p.mu.Lock()
	p.backupDue = time.Now()
	p.mu.Unlock()
	eventually(t, "the backup fails", func() bool { return p.warned("backup of a control plane failed") })
	if err := os.Rename(p.dir(), p.dir()+".away"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.use(t.Context(), func() bool { return true }); err == nil {
		t.Error("it starts without its directory")
	}
	if err := os.Rename(p.dir()+".away", p.dir()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"of the first server", "does not start"} {
		if !p.warned(text) {
			t.Errorf("%q is not among %v", text, logging.Warnings(p.log()))
		}
	}
	for _, w := range logging.Warnings(p.log()) {
		if strings.Count(w.Text, "plane=acme") != 1 {
			t.Errorf("the warning names the control plane not once: %s", w.Text)
		}
	}
	if len(logging.Warnings(other.log())) > 0 {
		t.Error("another one has the warnings")
	}
}

// warned reports whether the log of the control plane has a warning with the text.
func (p *plane) warned(text string) bool {
	for _, w := range logging.Warnings(p.log()) {
		if strings.Contains(w.Text, text) {
			return true
		}
	}
	return false
}
