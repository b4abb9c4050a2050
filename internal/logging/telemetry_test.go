package logging

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRepeatedTelemetryErrorsAreDemoted(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	telemetry := &telemetryErrors{handler: newHandler(&out, Options{Untimed: true}), now: func() time.Time { return now }}
	for range 3 {
		telemetry.Handle(errors.New("refused"))
		now = now.Add(5 * time.Second)
	}
	if out.String() != "WARN  traces are not delivered  error=refused\n" {
		t.Errorf("at first: %q", out.String())
	}
	now = now.Add(telemetryPause)
	telemetry.Handle(errors.New("refused"))
	if !strings.HasSuffix(out.String(), "error=refused repeated=2\n") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("later: %q", out.String())
	}
}
