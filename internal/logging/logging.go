package logging

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/grpclog"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/logs"
)

// Options configures the log. The fields are those of the configuration file.
type Options struct {
	// Format is "text" or "json".
	Format string
	// Verbosity is 0 for the server's own messages, warnings and errors. At 1
	// there are messages for debugging and the libraries' informational ones, at
	// 2 and above more of the libraries'.
	Verbosity int
	// Color paints levels in text format.
	Color bool
	// Untimed leaves the time out of text format, for a journal that adds it.
	Untimed bool
}

// Setup makes slog, klog, grpc and OpenTelemetry write to w and returns the server's logger.
// These are process globals: call it once, before anything logs.
func Setup(w io.Writer, opts Options) (*slog.Logger, error) {
	handler := slog.Handler(&recentHandler{Handler: newHandler(w, opts), recent: &recent})
	logger := slog.New(handler)
	slog.SetDefault(logger)
	if err := routeKlog(handler, opts.Verbosity); err != nil {
		return nil, err
	}
	otel.SetErrorHandler(telemetryErrors(logger))
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, severityWriter{handler, slog.LevelDebug},
		severityWriter{handler, slog.LevelError}))
	return logger, nil
}

// telemetryErrors logs the errors of OpenTelemetry, which reports each failed export to a collector,
// every 5 s: one an hour as a warning, the others at level debug.
func telemetryErrors(log *slog.Logger) otel.ErrorHandlerFunc {
	warnings := rate.Sometimes{Interval: time.Hour}
	return func(err error) {
		level := slog.LevelDebug
		if !stopping.Load() {
			warnings.Do(func() { level = slog.LevelWarn })
		}
		log.Log(context.Background(), level, "traces are not delivered", "error", err)
	}
}

func newHandler(w io.Writer, opts Options) slog.Handler {
	level := slog.LevelInfo
	if opts.Verbosity >= 1 {
		level = slog.LevelDebug
	}
	if opts.Format == "json" {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: upstreamNames})
	}
	return &textHandler{out: log.New(w, "", 0), level: level, color: opts.Color, untimed: opts.Untimed}
}

// upstreamNames gives JSON lines the keys of upstream's JSON log format
// (k8s.io/component-base/logs/json), and values their texts.
func upstreamNames(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		attr.Key = "ts"
	}
	// as the text format prints it
	if text, ok := attr.Value.Any().(fmt.Stringer); ok && attr.Value.Kind() == slog.KindAny {
		attr.Value = slog.StringValue(text.String())
	}
	return attr
}

// routeKlog sends klog's lines, by severity, to the handler.
func routeKlog(handler slog.Handler, verbosity int) error {
	writers := map[string]io.Writer{
		"INFO":    io.Discard,
		"WARNING": severityWriter{handler, slog.LevelWarn},
		"ERROR":   severityWriter{handler, slog.LevelError},
		"FATAL":   fatalWriter{severityWriter{handler, slog.LevelError}},
	}
	if verbosity > 0 {
		writers["INFO"] = severityWriter{handler, slog.LevelInfo}
	}
	return logs.RouteKlog(max(verbosity-1, 0), writers)
}

// lastFatal is the last fatal message of klog.
var lastFatal atomic.Pointer[string]

// stopping is set by Stopping.
var stopping atomic.Bool

// Stopping marks the process as stopping. From then on warnings and errors of the
// libraries are logged at level debug: they are about components that have
// stopped. The server's own messages are not affected.
func Stopping() { stopping.Store(true) }

// fatals are the functions of OnFatal.
var fatals struct {
	sync.Mutex
	hook  sync.Once
	calls map[*func(error)]bool
}

// OnFatal calls f with the failure when a Kubernetes component fails for good
// (klog.Fatal; a failing post-start hook does that), instead of ending the process, until
// remove is called. f must start a stop that is bounded in time, and return. klog does not
// say which server of the process failed: the functions of all are called.
func OnFatal(f func(error)) (remove func()) {
	fatals.Lock()
	defer fatals.Unlock()
	if fatals.calls == nil {
		fatals.calls = map[*func(error)]bool{}
	}
	key := &f
	fatals.calls[key] = true
	fatals.hook.Do(func() { logs.OnFatal(fail) })
	return func() {
		fatals.Lock()
		defer fatals.Unlock()
		delete(fatals.calls, key)
	}
}

func fail(stack []byte) {
	text := "no message"
	if last := lastFatal.Load(); last != nil {
		text = *last
	}
	slog.Debug("a Kubernetes component failed", "stack", string(stack))
	err := fmt.Errorf("a Kubernetes component failed: %s", text)
	fatals.Lock()
	defer fatals.Unlock()
	for call := range fatals.calls {
		(*call)(err)
	}
}

// severityWriter turns lines that a library has formatted into records.
type severityWriter struct {
	handler slog.Handler
	level   slog.Level
}

// Write logs p. It returns no errors: they could not be logged.
func (s severityWriter) Write(p []byte) (int, error) {
	text, caller := logs.ParseKlog(p)
	level := s.level
	if level != slog.LevelInfo && (stopping.Load() || logs.HarmlessKubernetes(text)) {
		level = slog.LevelDebug
	}
	var attrs []slog.Attr
	if caller != "" {
		attrs = append(attrs, slog.String("caller", caller))
	}
	slog.New(s.handler).LogAttrs(context.Background(), level, logs.WithoutBody(text), attrs...)
	return len(p), nil
}

// fatalWriter also keeps the text of the last message, in lastFatal.
type fatalWriter struct{ severityWriter }

// Write logs p and keeps its text.
func (f fatalWriter) Write(p []byte) (int, error) {
	text, _ := logs.ParseKlog(p)
	lastFatal.Store(&text)
	return f.severityWriter.Write(p)
}
