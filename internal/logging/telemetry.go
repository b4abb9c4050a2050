package logging

import (
	"log/slog"
	"sync"
	"time"
)

// telemetryOutage is the time without an error after which the next one is another outage:
// OpenTelemetry exports every 5 s and reports each failure.
const telemetryOutage = time.Minute

// telemetryErrors logs the errors of OpenTelemetry, such as an export to a collector that
// does not answer: the first one of an outage as a warning, the others at level debug.
type telemetryErrors struct {
	handler slog.Handler

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (t *telemetryErrors) Handle(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	isFirst := time.Since(t.last) > telemetryOutage
	t.last = time.Now()
	t.mu.Unlock()
	log := slog.New(t.handler).Debug
	if isFirst && !stopping.Load() {
		log = slog.New(t.handler).Warn
	}
	log("traces are not delivered", "error", err)
}
