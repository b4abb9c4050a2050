package logging

import (
	"context"
	"log"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// textHandler writes lines in the form "15:04:05.000 INFO message  key=value".
type textHandler struct {
	out   *log.Logger // which keeps lines whole when goroutines log at once
	level slog.Level
	color bool
	// untimed leaves the time out.
	untimed bool
	attributes
}

// Enabled implements [slog.Handler].
func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// WithAttrs implements [slog.Handler].
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clone := *h
	clone.attributes = h.with(attrs)
	return &clone
}

// WithGroup implements [slog.Handler].
func (h *textHandler) WithGroup(name string) slog.Handler {
	clone := *h
	clone.group = h.group + name + "."
	return &clone
}

// Handle implements [slog.Handler].
func (h *textHandler) Handle(_ context.Context, record slog.Record) error {
	line := h.label(record.Level) + " " + escape(record.Message)
	if !h.untimed {
		line = record.Time.Format("15:04:05.000 ") + line
	}
	if attrs := h.text(record); attrs != "" {
		line += " " + attrs
	}
	return h.out.Output(0, line)
}

// attributes are those of a logger.
type attributes struct {
	attrs []slog.Attr // with their groups in the keys
	group string      // prefix of the keys of further attributes
}

// with returns the attributes and further ones.
func (a attributes) with(attrs []slog.Attr) attributes {
	a.attrs = slices.Clone(a.attrs)
	for _, attr := range attrs {
		a.attrs = append(a.attrs, slog.Attr{Key: a.group + attr.Key, Value: attr.Value})
	}
	return a
}

// text returns the attributes and those of the record, each after a space.
func (a attributes) text(record slog.Record) string {
	var text strings.Builder
	var attrs []slog.Attr
	record.Attrs(func(attr slog.Attr) bool {
		attrs = append(attrs, attr)
		return true
	})
	for _, attr := range a.with(attrs).attrs {
		text.WriteString(" " + attr.Key + "=" + quote(attr.Value.Resolve().String()))
	}
	return text.String()
}

func (h *textHandler) label(level slog.Level) string {
	name, color := "INFO ", "32"
	switch {
	case level >= slog.LevelError:
		name, color = "ERROR", "31"
	case level >= slog.LevelWarn:
		name, color = "WARN ", "33"
	case level < slog.LevelInfo:
		name, color = "DEBUG", "36"
	}
	if !h.color {
		return name
	}
	return "\x1b[" + color + "m" + name + "\x1b[0m"
}

// quote does not quote plain words, so that paths and URLs can be copied.
func quote(value string) string {
	if value == "" || strings.ContainsAny(value, " \t\n\"=") || strings.ContainsFunc(value, unicode.IsControl) {
		return strconv.Quote(value)
	}
	return value
}

// escape escapes characters that control a terminal: a message of a library may have text
// of a client or a webhook. Messages may have several lines.
func escape(message string) string {
	controls := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !strings.ContainsFunc(message, controls) {
		return message
	}
	var escaped strings.Builder
	for _, r := range message {
		if controls(r) {
			escaped.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}
