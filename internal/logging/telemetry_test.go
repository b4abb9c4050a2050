package logging

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeatedTelemetryErrorsAreDemoted: an outage is one warning.
func TestRepeatedTelemetryErrorsAreDemoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		telemetry := &telemetryErrors{handler: newHandler(&out, Options{Untimed: true})}
		for outage := 1; outage <= 2; outage++ {
			for range 30 {
				telemetry.Handle(errors.New("refused"))
				time.Sleep(5 * time.Second)
			}
			if want := strings.Repeat("WARN  traces are not delivered  error=refused\n", outage); out.String() != want {
				t.Errorf("outage %d: %q", outage, out.String())
			}
			time.Sleep(telemetryOutage)
		}
	})
}
