package kube

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"
)

// blockingProvider blocks until its context ends.
type blockingProvider struct{ noop.TracerProvider }

// Shutdown implements tracing.TracerProvider.
func (blockingProvider) Shutdown(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestShutdownIsBounded hangs if the shutdown does.
func TestShutdownIsBounded(t *testing.T) {
	if err := BoundedShutdown(blockingProvider{}).Shutdown(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
