package planes

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
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
	p := h.known(t, "acme")
	other := h.known(t, "beta")
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

// TestWarningOfDisk: that backups and journals are on the disk of the data is logged once for the host,
// whatever the number of control planes and of their starts.
func TestWarningOfDisk(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(c *config.ServerConfiguration) { c.Planes.Journal = t.TempDir() })
	log := slog.New(logging.KeepWarnings(h.Manager.config.Log.Handler()))
	h.Manager.config.Log = log
	for _, name := range []string{"acme", "beta"} {
		client := h.create(t, name, map[string]any{"journal": map[string]any{}, "backup": map[string]any{"schedule": "@every 1h"}})
		addMap(t, client, "one")
		h.sleepNow(t, name)
		addMap(t, client, "two")
		p := h.known(t, name)
		if p.warned("on the disk of the data") {
			t.Error("the log of " + name + " has a warning for the host")
		}
	}
	for _, field := range []string{"planes.journal", "planes.backupDir"} {
		count := 0
		for _, w := range logging.Warnings(log) {
			if strings.Contains(w.Text, field+" is on the disk of the data") {
				count += w.Count
			}
		}
		if count != 1 {
			t.Errorf("%s is warned of %d times", field, count)
		}
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
