package backup

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestOverdueBackup: a backup that hangs is reported once, and one that ends is not.
func TestOverdueBackup(t *testing.T) {
	log := &bytes.Buffer{}
	a := NewMaker(MakerConfig{Log: slog.New(slog.NewTextHandler(log, nil))})
	events := make(chan string, 10)
	record := func(_, reason, _ string, _ ...any) { events <- reason }
	a.watchOverdue(t.Context(), time.Hour, record, func() {})
	if len(events) > 0 || log.Len() > 0 {
		t.Errorf("one that has ended: %s", log)
	}
	a.watchOverdue(t.Context(), time.Millisecond, record, func() {
		if reason := <-events; reason != "BackupOverdue" {
			t.Errorf("the event is %s", reason)
		}
	})
	if len(events) > 0 || !strings.Contains(log.String(), "overdue") || !strings.Contains(a.Account().Error, "overdue") {
		t.Errorf("%d more events, the log\n%s", len(events), log)
	}
}
