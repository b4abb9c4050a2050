package logging

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sort"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Zap returns a zap logger that writes into logger, for etcd. Informational
// messages, of which etcd has many, are dropped below verbosity 2.
func Zap(logger *slog.Logger, verbosity int) *zap.Logger {
	level := zapcore.WarnLevel
	if verbosity >= 2 {
		level = zapcore.InfoLevel
	}
	return zap.New(&zapCore{LevelEnabler: level, handler: logger.Handler()})
}

// zapCore is the part of zap that writes; it renders fields as klog would.
type zapCore struct {
	zapcore.LevelEnabler
	handler slog.Handler
	fields  []zapcore.Field
}

// With implements [zapcore.Core].
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{c.LevelEnabler, c.handler, append(append([]zapcore.Field{}, c.fields...), fields...)}
}

// Check implements [zapcore.Core].
func (c *zapCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) || quiet(entry.Message) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements [zapcore.Core].
func (c *zapCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelInfo
	switch {
	case entry.Level >= zapcore.ErrorLevel:
		level = slog.LevelError
	case entry.Level == zapcore.WarnLevel:
		level = slog.LevelWarn
	}
	record := newRecord(level, "etcd: "+entry.Message)
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range append(append([]zapcore.Field{}, c.fields...), fields...) {
		field.AddTo(encoder)
	}
	if cancelled(entry.Message, encoder.Fields["error"]) {
		return nil
	}
	keys := make([]string, 0, len(encoder.Fields))
	for key := range encoder.Fields {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		record.AddAttrs(slog.String(key, fmt.Sprint(encoder.Fields[key])))
	}
	return c.handler.Handle(context.Background(), record)
}

// Sync implements [zapcore.Core]; nothing is buffered.
func (c *zapCore) Sync() error { return nil }

// cancelled tells the warning of a request that nobody waits for any more.
func cancelled(message string, err any) bool {
	text, _ := err.(string)
	return message == "retrying of unary invoker failed" && strings.Contains(text, "code = Canceled")
}

// quiet tells etcd's warnings that warn of nothing here: they are about
// settings that a single member without listeners cannot do otherwise, and
// about what a new data directory lacks for its first milliseconds: a term, and
// a member that is applied; about a log that is long, and is being applied; and
// about requests that are refused, which who has asked is told.
func quiet(message string) bool {
	if runtime.GOOS != "linux" && strings.Contains(message, "failed to get file descriptor usage") {
		return true // etcd counts them on Linux only
	}
	for _, part := range []string{
		"simple token is not cryptographically signed",
		"Running http and grpc server on single port",
		"[UNSAFE] --unsafe-no-fsync",
		"Failed to detect schema version",
		"failed to update storage version",
		"cannot campaign at term 1 since there are still pending configuration changes",
		"failed to publish local member to cluster through raft",
		"failed to apply request",
		"message exceeded backend quota; raising alarm",
		"quota exceeds the maximum value",
	} {
		if strings.Contains(message, part) {
			return true
		}
	}
	// A listener that is closed, which etcd takes for a failure.
	return stopping.Load() && (strings.Contains(message, "setting up serving from embedded etcd failed") || strings.Contains(message, "secure grpc server due to error"))
}
