package testplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// Server is a server in a temporary directory, in this process. A process makes at most
// one. Its methods are called by one goroutine.
type Server struct {
	config *config.ServerConfiguration
	dir    temporary.Directory
	guard  *Guard
	keep   bool
	log    *slog.Logger
	opened io.Closer // the file of the log, or nil

	*controlplane.ControlPlane // once Start has returned nil
}

// ServerOptions configure a Server.
type ServerOptions struct {
	// Config is changed: see [temporary.Configure]. Its data directory is the temporary one.
	Config *config.ServerConfiguration
	// Keep leaves the temporary directory where it is.
	Keep bool
	// Log is the file of the server's log; empty for one in the temporary
	// directory, and "-" for Err.
	Log string
	// Logger replaces Log; nil for none.
	Logger *slog.Logger
	Err    io.Writer
}

// NewServer makes the temporary directory. The caller calls Close. Writes do not
// wait for the disk.
func NewServer(options ServerOptions) (*Server, error) {
	dir, err := temporary.Make()
	if err != nil {
		return nil, err
	}
	datadir.DisableSync(string(dir))
	s := &Server{config: options.Config, dir: dir, keep: options.Keep}
	guarded := string(dir)
	if s.keep {
		guarded = ""
	}
	if s.guard, err = StartGuard(guarded); err == nil {
		err = s.prepare(options)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(context.Background()))
	}
	return s, nil
}

func (s *Server) prepare(options ServerOptions) error {
	temporary.Configure(s.config)
	s.config.DataDir = s.dir.Data()
	if err := s.openLog(options); err != nil {
		return err
	}
	return s.config.Complete()
}

// openLog opens the log of the server.
func (s *Server) openLog(options ServerOptions) error {
	if options.Logger != nil {
		s.log = options.Logger
		return nil
	}
	path, out := options.Log, options.Err
	if path == "" {
		path = s.dir.Log()
	}
	if path != "-" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open the log: %w; name another file with --logs", err)
		}
		s.opened, out = file, file
	}
	var err error
	s.log, err = logging.Setup(out, logging.Options{Format: s.config.Logging.Format, Verbosity: s.config.Logging.Verbosity})
	return err
}

// Start checks the configuration and begins to start the server. started receives nil when the
// server is ready, or why it is not. The end of ctx ends the start.
func (s *Server) Start(ctx context.Context) (started <-chan error, err error) {
	s.ControlPlane, err = controlplane.New(controlplane.Options{Config: s.config, Listen: true, OwnsProcess: true, Log: s.log})
	if err != nil {
		return nil, err
	}
	result := make(chan error, 1)
	go func() { result <- s.ControlPlane.Start(ctx) }()
	return result, nil
}

// Close removes the temporary directory, unless it is kept, and ends the guard. The end of
// ctx ends the wait for etcd (see [temporary.Directory.Remove]). With [temporary.ErrLeft], the guard goes on and
// removes the directory after the end of this process.
func (s *Server) Close(ctx context.Context) error {
	var errs []error
	if s.opened != nil {
		errs = append(errs, s.opened.Close())
	}
	if !s.keep {
		err := s.dir.Remove(ctx)
		if errs = append(errs, err); errors.Is(err, temporary.ErrLeft) {
			return errors.Join(errs...)
		}
	}
	if s.guard != nil {
		errs = append(errs, s.guard.Release())
	}
	return errors.Join(errs...)
}
