package logging

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeatedTelemetryErrorsAreDemoted: one in an hour is a warning.
func TestRepeatedTelemetryErrorsAreDemoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		handle := telemetryErrors(slog.New(newHandler(&out, Options{Untimed: true})))
		for end := time.Now().Add(90 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Second) {
			handle(errors.New("refused"))
		}
		if want := strings.Repeat("WARN  traces are not delivered  error=refused\n", 2); out.String() != want {
			t.Errorf("got %q", out.String())
		}
	})
}
