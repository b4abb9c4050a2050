package testplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// Plane is a server in a temporary directory, in this process. A process makes at most
// one. Its methods are called by one goroutine.
type Plane struct {
	config *config.ServerConfiguration
	dir    *Directory
	guard  *Guard
	from   string
	keep   bool
	log    *slog.Logger
	opened io.Closer // the file of the log, or nil

	stop   context.CancelFunc
	failed chan error // the result of the server
	ready  chan appliance.Running
}

// PlaneOptions configure a Plane.
type PlaneOptions struct {
	// Config is changed: see [Configure]. Its data directory is the temporary one.
	Config *config.ServerConfiguration
	// From is an archive or a directory that the plane begins with, see
	// [Plane.Fill]; empty for none.
	From string
	// Keep leaves the temporary directory where it is.
	Keep bool
	// Log is the file of the server's log; empty for one in the temporary
	// directory, and "-" for Err.
	Log string
	// Logger replaces Log; nil for none.
	Logger *slog.Logger
	Err    io.Writer
}

// NewPlane makes the temporary directory. The caller calls Close. For the rest of the
// process, files are not synced to the disk.
func NewPlane(options PlaneOptions) (*Plane, error) {
	datadir.DisableSync()
	dir, err := MakeDirectory(options.Keep)
	if err != nil {
		return nil, err
	}
	p := &Plane{config: options.Config, dir: dir, from: options.From, keep: options.Keep, failed: make(chan error, 1), ready: make(chan appliance.Running, 1)}
	guarded := dir.Path()
	if p.keep {
		guarded = ""
	}
	if p.guard, err = StartGuard(guarded); err == nil {
		err = p.prepare(options)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Plane) prepare(options PlaneOptions) error {
	Configure(p.config)
	p.config.DataDir = p.dir.Data()
	if err := p.openLog(options); err != nil {
		return err
	}
	return p.config.Complete()
}

// Fill makes the data directory from the source in the options. It returns early when
// ctx ends. Call it once, before Start.
func (p *Plane) Fill(ctx context.Context) error {
	if p.from == "" {
		return nil
	}
	if err := fill(ctx, p.from, p.config.DataDir, p.log); err != nil {
		return fmt.Errorf("start from %s: %w", p.from, err)
	}
	return nil
}

// openLog opens the log of the server.
func (p *Plane) openLog(options PlaneOptions) error {
	if options.Logger != nil {
		p.log = options.Logger
		return nil
	}
	path, out := options.Log, options.Err
	if path == "" {
		path = p.dir.Log()
	}
	if path != "-" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open the log: %w; name another file with --logs", err)
		}
		p.opened, out = file, file
	}
	var err error
	p.log, err = logging.Setup(out, logging.Options{Format: p.config.Logging.Format, Verbosity: p.config.Logging.Verbosity})
	return err
}

// Start checks the configuration and starts the server, which stops when ctx ends.
func (p *Plane) Start(ctx context.Context) error {
	checked, err := appliance.Check(p.config)
	if err != nil {
		return err
	}
	checked.GarbageCollection(GCPercent, StartHeap)
	checked.WhenReady(func(running appliance.Running) { p.ready <- running })
	ctx, p.stop = context.WithCancel(ctx)
	go func() {
		err := appliance.Run(ctx, checked, p.log)
		if err == nil && ctx.Err() == nil {
			err = errors.New("the server stopped by itself")
		}
		p.failed <- err
	}()
	return nil
}

// Ready receives the server when it is ready.
func (p *Plane) Ready() <-chan appliance.Running { return p.ready }

// Failed receives the result of the server when it has ended: nil if Stop
// was called. Receive from it once.
func (p *Plane) Failed() <-chan error { return p.failed }

// Stop stops the server and returns its error. Do not call it after a receive from
// Failed.
func (p *Plane) Stop() error {
	p.stop()
	return <-p.failed
}

// Close removes the temporary directory, unless it is kept, and ends the guard.
func (p *Plane) Close() error {
	var errs []error
	if p.opened != nil {
		errs = append(errs, p.opened.Close())
	}
	if !p.keep {
		errs = append(errs, p.dir.Remove())
	}
	if p.guard != nil {
		errs = append(errs, p.guard.Release())
	}
	return errors.Join(errs...)
}
