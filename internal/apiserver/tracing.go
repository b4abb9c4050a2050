package apiserver

import (
	"context"
	"time"

	"k8s.io/component-base/tracing"
)

// traceFlush is what the last spans have to reach the collector in. Upstream
// waits until the exporter gives up, which is 10 s with one that is away.
const traceFlush = 500 * time.Millisecond

// hastyTracer bounds the end of a tracer provider. The API servers shut it
// down without a deadline (genericapiserver's completedConfig.New).
type hastyTracer struct{ tracing.TracerProvider }

// Shutdown delivers the last spans, if that is possible at once.
func (h hastyTracer) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, traceFlush)
	defer cancel()
	return h.TracerProvider.Shutdown(ctx)
}
