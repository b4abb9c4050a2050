package appliance

import (
	"context"
	"log/slog"
	"os"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/systemd"
)

// process has what the server and each part that runs alone need: the locked data
// directory, the supervisor, the connection to the service manager.
type process struct {
	config     *config.ServerConfiguration
	extension  Extension
	running    Running // for [Extension.WhenReady]
	log        *slog.Logger
	supervisor *lifecycle.Supervisor
	notifier   systemd.Notifier // sends nothing unless the server owns the process
	dir        *datadir.Dir
	stamp      datadir.Stamp
	started    time.Time
}

// begin locks the data directory. The caller must call end.
func begin(checked *Checked, log *slog.Logger) (*process, error) {
	p, err := newProcess(checked, log)
	if err == nil {
		err = p.lock()
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// newProcess connects to the service manager.
func newProcess(checked *Checked, log *slog.Logger) (p *process, err error) {
	p = &process{config: checked.config, log: log, extension: checked.extension, stamp: datadir.CurrentStamp(),
		started: time.Now()}
	if p.extension.OwnsProcess {
		p.notifier, err = systemd.Take()
	}
	return p, err
}

// lock locks the data directory.
func (p *process) lock() (err error) {
	open := datadir.Open
	if p.extension.Ephemeral {
		open = datadir.OpenEphemeral
	}
	p.dir, err = open(p.config.DataDir, p.stamp, p.config.NamedPaths()...)
	return err
}

// announce writes the first lines of the log.
func (p *process) announce(name string) {
	p.log.Info(name+" starts", "version", p.stamp.Version, "kubernetes", p.stamp.Kubernetes, "etcd",
		p.stamp.Etcd, "pid", os.Getpid())
	p.log.Info("data directory", "path", p.dir.Path(), "new", p.dir.Previous == nil)
	if note := p.config.Note(); note != "" {
		p.log.Warn(note)
	}
	for _, message := range p.dir.TightenModes() {
		p.log.Warn(message)
	}
}

// end unlocks the data directory.
func (p *process) end() {
	if err := p.dir.Abandon(); err != nil { // removes a new directory that has no data yet
		p.log.Error("closing the data directory failed", "error", err)
	}
}

// hooks are the functions of one kind of process. stopping may be nil.
type hooks struct {
	start    func(context.Context) error // starts the parts, see [lifecycle.Supervisor.Run]
	ready    func(context.Context)       // logs what the process serves
	healthy  func(context.Context) error // called for the watchdog of the service manager
	stopping func()                      // called before the first part is stopped
}

// run runs the parts until ctx ends or one fails.
func (p *process) run(ctx context.Context, hooks hooks) error {
	p.supervisor = lifecycle.New(ctx, lifecycle.Config{
		Log:       p.log,
		StopGrace: p.config.Serving.StopGrace.Duration,
		Ready: func(ctx context.Context) {
			hooks.ready(ctx)
			if p.extension.WhenReady != nil {
				p.extension.WhenReady(p.running)
			}
			p.notify("READY=1")
			p.notifier.FeedWatchdog(ctx, hooks.healthy, func(err error) {
				p.log.Warn("the health check failed: the watchdog is not notified", "error", err)
			})
		},
		Stopping: func() {
			if p.extension.OwnsProcess {
				logging.Stopping()
			}
			p.notify("STOPPING=1")
			if hooks.stopping != nil {
				hooks.stopping()
			}
		},
	})
	defer logging.OnFatal(p.supervisor.Fail)()
	if p.extension.OwnsProcess {
		defer context.AfterFunc(ctx, logging.Stopping)()
	}
	return p.supervisor.Run(func(ctx context.Context) error {
		if err := p.dir.BeginFirstStart(p.stamp); err != nil {
			return err
		}
		if err := datadir.WriteChanged(p.dir.Join(config.UsedFile), p.config.UsedContent(), 0o600); err != nil {
			return err
		}
		if err := hooks.start(ctx); err != nil {
			return err
		}
		return p.dir.WriteStamp(p.stamp)
	})
}

func (p *process) notify(state string) {
	if err := p.notifier.Send(state); err != nil {
		p.log.Warn("notifying the service manager failed", "error", err)
	}
}

// took returns the time since the start of the process, as text.
func (p *process) took() string { return time.Since(p.started).Round(time.Millisecond).String() }
