package logging

import (
	"log/slog"
	"sync"
	"time"
)

// telemetryPause is between two messages about spans that are not delivered.
// OpenTelemetry tries every 5 s and would say so each time.
const telemetryPause = 10 * time.Minute

// telemetryErrors logs what OpenTelemetry cannot do, as an export to a
// collector that is away: the first time, and then now and again.
type telemetryErrors struct {
	handler slog.Handler
	now     func() time.Time

	mu   sync.Mutex
	said time.Time
	more int // since then
}

// Handle implements otel.ErrorHandler.
func (t *telemetryErrors) Handle(err error) {
	if err == nil || stopping.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if !t.said.IsZero() && now.Sub(t.said) < telemetryPause {
		t.more++
		return
	}
	logger := slog.New(t.handler)
	if t.more > 0 {
		logger.Warn("traces are not delivered", "error", err, "unsaid", t.more)
	} else {
		logger.Warn("traces are not delivered", "error", err)
	}
	t.said, t.more = now, 0
}
