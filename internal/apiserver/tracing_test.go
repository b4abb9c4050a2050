package apiserver

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"
)

// deafTracer waits for a collector for as long as it is let.
type deafTracer struct{ noop.TracerProvider }

// Shutdown implements tracing.TracerProvider.
func (deafTracer) Shutdown(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestTheEndDoesNotWaitForACollector hangs if it does.
func TestTheEndDoesNotWaitForACollector(t *testing.T) {
	if err := (hastyTracer{deafTracer{}}).Shutdown(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
