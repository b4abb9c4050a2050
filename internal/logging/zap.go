package logging

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/logs"
)

// Zap returns a zap logger that writes into logger, for etcd. Informational
// messages, of which etcd has many, are dropped below verbosity 2.
func Zap(logger *slog.Logger, verbosity int) *zap.Logger {
	level := zapcore.WarnLevel
	if verbosity >= 2 {
		level = zapcore.InfoLevel
	}
	return zap.New(&zapCore{LevelEnabler: level, log: logger})
}

// zapCore is a [zapcore.Core] over slog; it formats fields as klog does.
type zapCore struct {
	zapcore.LevelEnabler
	log    *slog.Logger
	fields []zapcore.Field
}

// With implements [zapcore.Core].
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{c.LevelEnabler, c.log, append(append([]zapcore.Field{}, c.fields...), fields...)}
}

// Check implements [zapcore.Core].
func (c *zapCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements [zapcore.Core].
func (c *zapCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range append(append([]zapcore.Field{}, c.fields...), fields...) {
		field.AddTo(encoder)
	}
	var attrs []slog.Attr
	for _, key := range slices.Sorted(maps.Keys(encoder.Fields)) {
		attrs = append(attrs, slog.String(key, fmt.Sprint(encoder.Fields[key])))
	}
	c.log.LogAttrs(context.Background(), slogLevel(entry, encoder.Fields["error"]), "etcd: "+entry.Message, attrs...)
	return nil
}

// Sync implements [zapcore.Core]; nothing is buffered.
func (c *zapCore) Sync() error { return nil }

// slogLevel is the level of an entry. A harmless warning or error is demoted to
// debug, and so are all while the process stops.
func slogLevel(entry zapcore.Entry, cause any) slog.Level {
	if entry.Level < zapcore.WarnLevel {
		return slog.LevelInfo
	}
	text, _ := cause.(string)
	switch {
	case entry.Level < zapcore.DPanicLevel && (stopping.Load() || logs.HarmlessEtcd(entry.Message, text)):
		return slog.LevelDebug
	case entry.Level == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}
