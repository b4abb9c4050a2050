package logging

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// Options says how to log. The fields are those of the configuration file.
type Options struct {
	// Format is "text" or "json".
	Format string
	// Verbosity is 0 for the server's own messages, warnings and errors; the
	// other libraries' informational messages begin at 1.
	Verbosity int
	// Color paints levels in text format.
	Color bool
	// Untimed leaves the time out of text format, for a journal that adds it.
	Untimed bool
}

// Setup makes slog, klog, grpc and OpenTelemetry write to w and returns the server's logger.
// These are process globals: call it once, before anything logs.
func Setup(w io.Writer, opts Options) (*slog.Logger, error) {
	handler := newHandler(w, opts)
	logger := slog.New(handler)
	slog.SetDefault(logger)
	if err := routeKlog(handler, opts.Verbosity); err != nil {
		return nil, err
	}
	otel.SetErrorHandler(&telemetryErrors{handler: handler, now: time.Now})
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, severityWriter{handler, slog.LevelError, true}))
	return logger, nil
}

func newHandler(w io.Writer, opts Options) slog.Handler {
	level := slog.LevelInfo
	if opts.Verbosity >= 2 {
		level = slog.LevelDebug
	}
	if opts.Format == "json" {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: upstreamNames})
	}
	return &textHandler{out: &lockedWriter{w: w}, level: level, color: opts.Color, untimed: opts.Untimed}
}

// upstreamNames gives JSON lines the keys of upstream's JSON log format
// (k8s.io/component-base/logs/json).
func upstreamNames(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		attr.Key = "ts"
	}
	return attr
}

// routeKlog sends klog's lines, by severity, to the handler. klog.SetLogger
// would lose the severity: it turns warnings into plain messages.
func routeKlog(handler slog.Handler, verbosity int) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	settings := map[string]string{
		"logtostderr":     "false",
		"alsologtostderr": "false",
		"stderrthreshold": "4", // above FATAL: all lines go through the handler
		"one_output":      "true",
		"v":               strconv.Itoa(max(verbosity-1, 0)),
	}
	for name, value := range settings {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("set klog's %s=%s: %w", name, value, err)
		}
	}
	var info io.Writer = io.Discard
	if verbosity > 0 {
		info = severityWriter{handler, slog.LevelInfo, true}
	}
	klog.SetOutputBySeverity("INFO", info)
	klog.SetOutputBySeverity("WARNING", severityWriter{handler, slog.LevelWarn, verbosity > 0})
	klog.SetOutputBySeverity("ERROR", severityWriter{handler, slog.LevelError, verbosity > 0})
	klog.SetOutputBySeverity("FATAL", severityWriter{handler, slog.LevelError, verbosity > 0})
	return nil
}

// stopping is set by Stopping.
var stopping atomic.Bool

// Stopping says that the process is on its way out. From then on the libraries'
// warnings and errors, which are about what is being taken away from them,
// show at -v 1 and above only; the server's own messages are not affected.
func Stopping() { stopping.Store(true) }

// OnFatal makes a fatal message of upstream's end its goroutine and call f,
// instead of ending the process (a failing post-start hook, for one, is
// klog.Fatal). It is a process global: call it before anything runs.
func OnFatal(f func()) {
	klog.OsExit = func(int) {
		f()
		runtime.Goexit()
	}
}

// severityWriter turns lines that a library has formatted into records.
type severityWriter struct {
	handler slog.Handler
	level   slog.Level
	// all lets through what is unremarkable.
	all bool
}

// klogHeader is "W1121 03:21:57.000000   12345 file.go:42] ".
var klogHeader = regexp.MustCompile(`^[IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d+\s+\d+ ([^ \]]+)\] `)

// Write logs each line of p. It never fails: there is nobody to tell.
func (s severityWriter) Write(p []byte) (int, error) {
	text := string(bytes.TrimRight(p, "\n"))
	caller := ""
	if match := klogHeader.FindStringSubmatch(text); match != nil {
		text, caller = text[len(match[0]):], match[1]
	}
	record := newRecord(s.level, strings.TrimSpace(text))
	if caller != "" {
		record.AddAttrs(slog.String("caller", caller))
	}
	if !s.all && (stopping.Load() || unremarkable(text)) {
		return len(p), nil
	}
	_ = s.handler.Handle(context.Background(), record) // the log is the last resort
	return len(p), nil
}

// unremarkable tells upstream's warnings and errors that every healthy start
// of a server of this kind brings, and those that repeat what has been said.
// -v 1 shows them.
func unremarkable(text string) bool {
	for _, prefix := range []string{
		// The file of an option that is not set.
		"The manifest file is empty, ignoring.",
		// A version that is known and switched off (genericapiserver.installAPIResources).
		"Skipping API ",
		// New types: whoever follows them starts over before it is done, and
		// says that it was not.
		`"Unable to sync caches"`,
		`"Timed out waiting for quota monitor sync"`,
		`"Unhandled Error" err="timed out waiting for dependency graph builder sync during GC sync"`,
		// A CRD was deleted or changed: its watchers start over or end
		// (cacher.terminateAllWatchers).
		"Terminating all watchers from cacher ",
		// Clients that go away, or that ask for what cannot be understood; those
		// who stay are told. Anybody could fill the log with them.
		`"Unhandled Error" err="apiserver was unable to write a JSON response: http: Handler timeout"`,
		`"Unhandled Error" err="apiserver was unable to write a fallback JSON response: http: Handler timeout"`,
		`"Unhandled Error" err="apiserver received an error that is not an metav1.Status: &errors.errorString{s:\"http: Handler timeout\"}`,
		`"Post-timeout activity"`,
		`"Couldn't parse request"`,
		`"Failed to convert options while estimating work for the list request"`,
		// The end: connections without requests are not waited for.
		"Failed to shutdown server: context deadline exceeded",
	} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	// The types of an aggregated server that is not there, at each attempt to
	// follow them. That it is not there has been said, once, and nothing else
	// in the process answers so.
	if strings.HasPrefix(text, `"Failed to watch"`) && strings.Contains(text, "the server is currently unable to handle the request") {
		return true
	}
	// Somebody who has watched an aggregated type goes away; the proxy aborts
	// the answer (net/http/httputil.ReverseProxy).
	if strings.HasPrefix(text, `"Timeout or abort while handling"`) && strings.Contains(text, "watch=true") {
		return true
	}
	// Events, while there is no room for anything.
	if strings.HasPrefix(text, `"Server rejected event`) && strings.Contains(text, "reads and deletes, and refuses other writes") {
		return true
	}
	// The first start: the namespace is being made at the same time, and who
	// wants to write into it tries again.
	// A slow machine: the publisher has not seen its own config map yet, and
	// finds it when it tries again.
	return strings.Contains(text, `namespaces \"kube-system\" not found`) ||
		strings.Contains(text, `configmaps \"kube-root-ca.crt\" already exists`)
}
