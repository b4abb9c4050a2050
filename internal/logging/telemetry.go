package logging

import (
	"log/slog"
	"sync"
	"time"
)

// telemetryPause is the time between two warnings about spans that cannot be exported.
// OpenTelemetry exports every 5 s and reports each failure.
const telemetryPause = 10 * time.Minute

// telemetryErrors logs the errors of OpenTelemetry, such as an export to a
// collector that does not answer: the first one and one per telemetryPause as
// warnings, the others at level debug.
type telemetryErrors struct {
	handler slog.Handler
	now     func() time.Time

	mu          sync.Mutex
	lastWarning time.Time
	more        int // errors since then
}

// Handle implements otel.ErrorHandler.
func (t *telemetryErrors) Handle(err error) {
	if err == nil {
		return
	}
	logger := slog.New(t.handler)
	if stopping.Load() {
		logger.Debug("traces are not delivered", "error", err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if !t.lastWarning.IsZero() && now.Sub(t.lastWarning) < telemetryPause {
		t.more++
		logger.Debug("traces are not delivered", "error", err)
		return
	}
	if t.more > 0 {
		logger.Warn("traces are not delivered", "error", err, "repeated", t.more)
	} else {
		logger.Warn("traces are not delivered", "error", err)
	}
	t.lastWarning, t.more = now, 0
}
