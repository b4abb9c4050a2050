package datastore

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestReportReading: a long start logs progress and extends the start timeout of the service
// manager.
func TestReportReading(t *testing.T) {
	log, states := &bytes.Buffer{}, make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		reportReading(ctx, t.TempDir(), slog.New(slog.NewTextHandler(log, nil)), func(state string) {
			select {
			case states <- state:
			case <-ctx.Done():
			}
		}, time.Millisecond)
	}()
	state := <-states
	cancel()
	<-ended
	if !strings.HasPrefix(state, "EXTEND_TIMEOUT_USEC=3000\nSTATUS=reading the database") {
		t.Errorf("the service manager got %q", state)
	}
	if !strings.Contains(log.String(), "still reading the database") {
		t.Errorf("the log is\n%s", log)
	}
}
