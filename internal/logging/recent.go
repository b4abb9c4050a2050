package logging

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// recentTime is how long a warning is kept after it was logged last.
	recentTime = time.Hour
	// maxRecent bounds the number of different warnings that are kept.
	maxRecent = 100
	// maxRecentText bounds the length of each, in bytes.
	maxRecentText = 500
)

// Warning is a warning or an error that was logged.
type Warning struct {
	// Last is when it was logged last, Count how many times within an hour of each
	// other.
	Last  time.Time `json:"last"`
	Count int       `json:"count"`
	// Level is "warning" or "error".
	Level string `json:"level"`
	// Text is the message with its attributes.
	Text string `json:"text"`
}

// recentWarnings keeps the warnings and errors of the last hour. Equal texts are one
// entry. It is safe for concurrent use.
type recentWarnings struct {
	now func() time.Time

	mu   sync.Mutex
	list []Warning // by Last
}

// recent has the warnings of this process.
var recent = recentWarnings{now: time.Now}

// Warnings returns the warnings and errors that the log has had in the last hour, the latest
// last: those of this process, unless [KeepWarnings] keeps those of the log apart.
func Warnings(log *slog.Logger) []Warning {
	if h, ok := log.Handler().(*recentHandler); ok {
		return h.recent.read()
	}
	return recent.read()
}

// KeepWarnings returns a handler that also keeps the warnings and errors of a log for
// [Warnings], without those of others.
func KeepWarnings(handler slog.Handler) slog.Handler {
	return &recentHandler{Handler: handler, recent: &recentWarnings{now: time.Now}}
}

func (r *recentWarnings) read() []Warning {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	return slices.Clone(r.list)
}

// forget drops what was logged more than recentTime ago.
func (r *recentWarnings) forget() {
	since := r.now().Add(-recentTime)
	r.list = slices.DeleteFunc(r.list, func(w Warning) bool { return w.Last.Before(since) })
}

func (r *recentWarnings) add(level slog.Level, text string) {
	if len(text) > maxRecentText {
		text = strings.ToValidUTF8(text[:maxRecentText], "") + "..."
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	warning := Warning{Count: 1, Level: "warning", Text: text, Last: r.now()}
	if level >= slog.LevelError {
		warning.Level = "error"
	}
	if i := slices.IndexFunc(r.list, func(w Warning) bool { return w.Text == text && w.Level == warning.Level }); i >= 0 {
		warning.Count += r.list[i].Count
		r.list = slices.Delete(r.list, i, i+1)
	} else if len(r.list) == maxRecent {
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, warning)
}

// recentHandler hands records to another handler and keeps the warnings and errors.
type recentHandler struct {
	slog.Handler
	recent *recentWarnings
	attributes
}

// Handle implements [slog.Handler].
func (h *recentHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		h.recent.add(record.Level, record.Message+h.text(record))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements [slog.Handler].
func (h *recentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &recentHandler{h.Handler.WithAttrs(attrs), h.recent, h.with(attrs)}
}

// WithGroup implements [slog.Handler].
func (h *recentHandler) WithGroup(name string) slog.Handler {
	return &recentHandler{h.Handler.WithGroup(name), h.recent, attributes{h.attrs, h.group + name + "."}}
}
