package kube

import (
	"context"
	"time"

	"k8s.io/component-base/tracing"
)

// Upstream fact: the API servers shut their tracer down without a deadline
//
// Mirrors: k8s.io/apiserver/pkg/server.completedConfig.New#TracerProvider
// Why: the exporter gives up after 10 s when the collector does not answer, and
//   the stop waits for it.
// Gain: a stop takes 0.5 s instead of 10 s while the collector is away.
// Breaks: nothing once upstream has a deadline; this can go then. Tests:
//   TestTracingWithoutACollector.

// traceFlush bounds the time in which the last spans are sent.
const traceFlush = 500 * time.Millisecond

// BoundedShutdown returns the provider with a shutdown that takes half a second
// at most. Spans that are not delivered by then are lost.
func BoundedShutdown(provider tracing.TracerProvider) tracing.TracerProvider {
	return boundedShutdown{provider}
}

type boundedShutdown struct{ tracing.TracerProvider }

// Shutdown delivers the last spans, if that is possible in time.
func (b boundedShutdown) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, traceFlush)
	defer cancel()
	return b.TracerProvider.Shutdown(ctx)
}
