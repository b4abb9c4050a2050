package logging

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/logs"
)

const (
	// maxRejections bounds the number of recorded rejections.
	maxRejections = 200
	// maxMessage bounds the length of a webhook's message in the log, in bytes.
	maxMessage = 200
)

// rejections records the logged rejections by webhooks. Equal ones are logged
// once; clients receive each. It is safe for concurrent use.
type rejections struct {
	mu     sync.Mutex
	logged map[string]bool
}

var webhookRejections rejections

// log handles a message that is a rejection and reports whether it is one.
func (r *rejections) log(handler slog.Handler, text string) bool {
	webhook, message, ok := logs.WebhookRejection(text)
	if !ok {
		return false
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	level := slog.LevelInfo
	if !r.isNew(webhook + "\n" + message) {
		level = slog.LevelDebug
	}
	record := newRecord(level, "a webhook rejected a request")
	record.AddAttrs(slog.String("webhook", webhook), slog.String("message", message))
	if handler.Enabled(context.Background(), level) {
		_ = handler.Handle(context.Background(), record) // there is nowhere else to report it
	}
	return true
}

func (r *rejections) isNew(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logged[key] {
		return false
	}
	if r.logged == nil || len(r.logged) >= maxRejections {
		r.logged = map[string]bool{}
	}
	r.logged[key] = true
	return true
}
