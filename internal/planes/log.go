package planes

import (
	"context"
	"log/slog"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// warnings passes warnings and errors on: a host has many control planes, which start and stop
// all the time.
type warnings struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (w warnings) WithAttrs(attributes []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attributes)}
}

// WithGroup implements [slog.Handler].
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// warningsOf returns the log of a control plane, whose administrators see its warnings, and not
// those of others.
func warningsOf(log *slog.Logger, name string) *slog.Logger {
	return slog.New(logging.KeepWarnings(warnings{log.Handler()})).With("plane", name)
}

// log returns the log of the control plane, which has the warnings of the former times that the
// control plane was awake.
func (p *plane) log() *slog.Logger {
	p.logMu.Lock()
	defer p.logMu.Unlock()
	if p.logger == nil {
		p.logger = warningsOf(p.manager.config.Log, p.name)
	}
	return p.logger
}

// forgetLog drops the log if it has no warnings.
func (p *plane) forgetLog() {
	p.logMu.Lock()
	defer p.logMu.Unlock()
	if p.logger != nil && len(logging.Warnings(p.logger)) == 0 {
		p.logger = nil
	}
}

// planeAudit sends the audit events of a control plane where those of the host go, with the path that
// clients see. Upstream's own log would keep a file and a goroutine after each sleep.
type planeAudit struct {
	audit.Backend               // runs nothing
	host          audit.Backend // nil for none
	plane         string
}

// ProcessEvents implements [audit.Sink]. Requests go on changing their events.
func (a planeAudit) ProcessEvents(events ...*auditinternal.Event) bool {
	for i, event := range events {
		copied := *event
		copied.RequestURI = prefix + a.plane + event.RequestURI
		events[i] = &copied
	}
	return a.host == nil || a.host.ProcessEvents(events...)
}
