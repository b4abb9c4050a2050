package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// process is what the server and each of its parts have in common: one data
// directory, components that are started and stopped in order, and a service
// manager that is told.
type process struct {
	config  *config.ServerConfiguration
	log     *slog.Logger
	group   *group
	notify  notifier
	dir     *datadir.Dir
	stamp   datadir.Stamp
	started time.Time
}

// begin takes the data directory. The caller ends what it has begun.
func begin(cfg *config.ServerConfiguration, log *slog.Logger) (*process, error) {
	notify, err := takeNotifier()
	if err != nil {
		return nil, err
	}
	p := &process{config: cfg, log: log, notify: notify, group: newGroup(log), stamp: currentStamp(), started: time.Now()}
	if p.dir, err = datadir.Open(cfg.DataDir, p.stamp, cfg.NamedPaths()...); err != nil {
		return nil, err
	}
	return p, nil
}

// end gives the data directory back.
func (p *process) end() {
	if err := p.dir.Close(); err != nil {
		p.log.Error("giving the data directory back failed", "error", err)
	}
}

// announce writes the first lines of the log.
func (p *process) announce(what string) {
	p.log.Info(what+" starts", "version", p.stamp.Version, "kubernetes", p.stamp.Kubernetes, "etcd", p.stamp.Etcd, "pid", os.Getpid())
	p.log.Info("data directory", "path", p.dir.Path(), "new", p.dir.Previous == nil)
}

// live is the life between the lock and the unlock. start brings the
// components up, serve lasts until ctx ends or something fails, and leave is
// called before the components are stopped.
func (p *process) live(ctx context.Context, start, serve func(context.Context) error, leave func()) error {
	logging.OnFatal(p.group.fatal)
	defer context.AfterFunc(ctx, logging.Stopping)()
	err := p.dir.BeginFirstStart(p.stamp)
	if err == nil {
		err = p.startOrDie(ctx, start)
	}
	if err == nil {
		err = p.dir.WriteStamp(p.stamp)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		p.log.Info("stopped during the start")
		err = nil
	case err == nil:
		err = serve(ctx)
	}
	began := time.Now()
	logging.Stopping()
	if notifyErr := p.notify.send("STOPPING=1"); notifyErr != nil {
		p.log.Warn("the service manager does not listen", "error", notifyErr)
	}
	leave()
	timeout := stopTimeout
	if err != nil {
		timeout = brokenStopTimeout
	}
	err = errors.Join(p.group.stop(timeout), err) // the cause is the last word
	p.log.Info("stopped", "took", time.Since(began).Round(time.Millisecond).String())
	return err
}

// startOrDie is start, cut short when a component dies that had come up: what
// comes after it may wait for it in vain.
func (p *process) startOrDie(ctx context.Context, start func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- start(ctx) }()
	select {
	case err := <-started:
		return err
	case died := <-p.group.died:
		cancel()
		select {
		case <-started: // it has cleaned up
		case <-time.After(brokenStopTimeout):
		}
		return died
	}
}

// ready tells the service manager.
func (p *process) ready() {
	if err := p.notify.send("READY=1"); err != nil {
		p.log.Warn("the service manager does not listen", "error", err)
	}
}

// wait returns when ctx ends, or with the error of the component that died.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		p.log.Info("stopping")
		return nil
	case err := <-p.group.died:
		return err
	}
}

// took is the time since the process began, for people.
func (p *process) took() string { return time.Since(p.started).Round(time.Millisecond).String() }

// errNeeds is what a part says whose configuration lacks something that the
// whole server does without.
func errNeeds(path, format string, args ...any) error {
	return &config.FieldError{Path: path, Message: fmt.Sprintf(format, args...)}
}
