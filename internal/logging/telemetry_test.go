package logging

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
)

// TestRepeatedTelemetryErrorsAreDemoted: each text is one warning.
func TestRepeatedTelemetryErrorsAreDemoted(t *testing.T) {
	var out bytes.Buffer
	handle := telemetryErrors(slog.New(newHandler(&out, Options{Untimed: true})))
	for range 3 {
		handle(errors.New("refused"))
		handle(errors.New("too late"))
	}
	want := "WARN  traces are not delivered  error=refused\nWARN  traces are not delivered  error=\"too late\"\n"
	if out.String() != want {
		t.Errorf("got %q", out.String())
	}
}
