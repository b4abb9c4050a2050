package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/datastore"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/systemd"
)

// process is what the server and each of its parts that runs alone have in
// common: a data directory, a supervisor, and a service manager that is told.
type process struct {
	config     *config.ServerConfiguration
	log        *slog.Logger
	supervisor *lifecycle.Supervisor
	notifier   systemd.Notifier
	dir        *datadir.Dir
	stamp      datadir.Stamp
	started    time.Time
}

// begin locks the data directory. The caller calls end.
func begin(cfg *config.ServerConfiguration, log *slog.Logger) (*process, error) {
	notifier, err := systemd.Take()
	if err != nil {
		return nil, err
	}
	p := &process{config: cfg, log: log, notifier: notifier, stamp: datadir.CurrentStamp(), started: time.Now()}
	if p.dir, err = datadir.Open(cfg.DataDir, p.stamp, cfg.NamedPaths()...); err != nil {
		return nil, err
	}
	return p, nil
}

// announce writes the first lines of the log.
func (p *process) announce(name string) {
	p.log.Info(name+" starts", "version", p.stamp.Version, "kubernetes", p.stamp.Kubernetes, "etcd", p.stamp.Etcd, "pid", os.Getpid())
	p.log.Info("data directory", "path", p.dir.Path(), "new", p.dir.Previous == nil)
	for _, message := range p.dir.TightenModes() {
		p.log.Warn(message)
	}
}

// end unlocks the data directory.
func (p *process) end() {
	if err := p.dir.Close(); err != nil {
		p.log.Error("closing the data directory failed", "error", err)
	}
}

// life is what differs between the processes. stopping may be nil.
type life struct {
	start    func(context.Context) error // see [lifecycle.Supervisor.Run]
	ready    func(context.Context)       // logs what the process serves
	healthy  func(context.Context) error // for the service manager's watchdog
	stopping func()                      // before the first part is stopped
}

// stopTimeout is what each part has to stop in, besides the grace for requests.
const stopTimeout = 20 * time.Second

// run runs the parts until ctx ends or one fails.
func (p *process) run(ctx context.Context, life life) error {
	p.supervisor = lifecycle.New(ctx, lifecycle.Config{
		Log:         p.log,
		StopTimeout: stopTimeout + p.config.Serving.StopGrace.Duration,
		Ready: func(ctx context.Context) {
			life.ready(ctx)
			p.notify("READY=1")
			p.notifier.FeedWatchdog(ctx, life.healthy, func(err error) {
				p.log.Warn("the watchdog is not told that all is well", "error", err)
			})
		},
		Stopping: func() {
			logging.Stopping()
			p.notify("STOPPING=1")
			if life.stopping != nil {
				life.stopping()
			}
		},
	})
	logging.OnFatal(p.supervisor.Fail)
	defer context.AfterFunc(ctx, logging.Stopping)()
	return p.supervisor.Run(func(ctx context.Context) error {
		if err := p.dir.BeginFirstStart(p.stamp); err != nil {
			return err
		}
		if err := life.start(ctx); err != nil {
			return err
		}
		return p.dir.WriteStamp(p.stamp)
	})
}

func (p *process) notify(state string) {
	if err := p.notifier.Send(state); err != nil {
		p.log.Warn("the service manager does not listen", "error", err)
	}
}

// took is the time since the start of the process, for people.
func (p *process) took() string { return time.Since(p.started).Round(time.Millisecond).String() }

// errNeeds is the error of a part that runs alone and whose configuration lacks
// something that the whole server does without.
func errNeeds(path, format string, args ...any) error {
	return &config.FieldError{Path: path, Message: fmt.Sprintf(format, args...)}
}

// external says whether the store is run elsewhere.
func (p *process) external() bool { return len(p.config.Etcd.External.Endpoints) > 0 }

// beforeOpening archives what another release has left in the embedded etcd,
// before this release's etcd opens it.
func (p *process) beforeOpening(ctx context.Context) error {
	if p.external() || !etcd.Exists(p.dir.Join("etcd")) {
		return nil
	}
	archiver := admin.NewStoppedArchiver(p.config, p.dir, p.stamp, p.log)
	return p.reading(ctx, func() error { return archiver.BeforeUpgrade(ctx) })
}

// reading calls read, which reads the embedded database if there is one.
func (p *process) reading(ctx context.Context, read func() error) error {
	if p.external() {
		return read()
	}
	return datastore.Reading(ctx, p.dir.Join("etcd"), p.log, p.notify, read)
}
