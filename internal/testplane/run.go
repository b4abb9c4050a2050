package testplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/manifests"
)

// DataDirVariable names the data directory to a command.
const DataDirVariable = "KUBE_HYPER_MINI_DATA_DIR"

// existingCluster makes controller-runtime's envtest use KUBECONFIG.
const existingCluster = "USE_EXISTING_CLUSTER=true"

// RunOptions configure a run.
type RunOptions struct {
	// Config is changed: see [temporary.Configure]. Its data directory is a temporary one.
	Config *config.ServerConfiguration
	// Keep leaves the temporary directory where it is.
	Keep bool
	// Log is the file of the server's log; empty for one in the temporary directory, and
	// "-" for Err.
	Log string
	// CRDs and Manifests are files and directories that are applied before the command
	// starts. Of what is in CRDs, only CustomResourceDefinitions are applied.
	CRDs, Manifests []string
	// Command is a program with its arguments. Without one, Run prints where the
	// server is to Out, and waits.
	Command []string
	// Grace is the time between SIGTERM and SIGKILL for the command.
	Grace time.Duration
	// Owner ends the run when it is read to its end; nil for none.
	Owner io.Reader
	// Signals are passed on to the command. Without one, an interrupt, SIGTERM,
	// SIGHUP or SIGQUIT ends the run.
	Signals  <-chan os.Signal
	Out, Err io.Writer
}

// runner is a Run under way.
type runner struct {
	RunOptions
	dir   *Directory
	plane *controlplane.ControlPlane
	log   *slog.Logger
	path  string // of the program
	owner <-chan struct{}
}

// Run starts a server, runs the command against it, and removes everything again. It
// returns the exit code of the command. With an error the code has no meaning; a [CommandError]
// has its own.
func Run(ctx context.Context, options RunOptions) (code int, err error) {
	r := &runner{RunOptions: options, owner: endOf(options.Owner)}
	if len(r.Command) > 0 {
		if r.path, err = FindCommand(r.Command[0]); err != nil {
			return 0, err // before anything is made
		}
	}
	if r.dir, err = NewDirectory(r.Keep); err != nil {
		return 0, err
	}
	code, err = r.serve(ctx)
	err = errors.Join(err, r.close())
	if r.Keep {
		_, keptErr := fmt.Fprintf(r.Err, "kept %s: kube-hyper-mini server --data-dir %s\n", r.dir.Directory, r.dir.Data())
		err = errors.Join(err, keptErr)
	}
	return code, err
}

// close removes the directory.
func (r *runner) close() error {
	err := r.dir.Close()
	if errors.Is(err, temporary.ErrLeft) {
		_, err = fmt.Fprintln(r.Err, err) // no failure: the guard removes the directory
	}
	return err
}

// endOf returns a channel that is closed at the end of the input; nil if there
// is no input.
func endOf(in io.Reader) <-chan struct{} {
	if in == nil {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in) // an error ends it too
	}()
	return ended
}

// serve runs the server for as long as the command runs. Its writes do not wait for the disk.
func (r *runner) serve(ctx context.Context) (code int, err error) {
	datadir.DisableSync(string(r.dir.Directory))
	temporary.Configure(r.Config)
	r.Config.DataDir = r.dir.Data()
	file, err := r.openLog()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := r.Config.Complete(); err != nil {
		return 0, err
	}
	r.plane, err = controlplane.New(controlplane.Options{Config: r.Config, Listen: true, OwnsProcess: true, Log: r.log})
	if err != nil {
		return 0, err
	}
	if err = r.untilEnd(ctx, r.start); err == nil {
		code, err = r.use(ctx)
	}
	if stopErr := r.plane.Stop(context.WithoutCancel(ctx)); stopErr != nil && !errors.Is(err, stopErr) {
		err = errors.Join(err, stopErr)
	}
	return code, err
}

// start returns when the server is ready, or why it is not.
func (r *runner) start(ctx context.Context) error {
	if err := r.plane.Start(ctx); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	return nil
}

// openLog opens the log of the server. The caller closes its file.
func (r *runner) openLog() (file io.Closer, err error) {
	opened, out := io.NopCloser(nil), r.Err
	if r.Log != "-" {
		file, err := os.OpenFile(cmp.Or(r.Log, r.dir.Log()), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open the log: %w; name another file with --logs", err)
		}
		opened, out = file, file
	}
	logs := logging.Options{Format: r.Config.Logging.Format, Verbosity: r.Config.Logging.Verbosity}
	if r.log, err = logging.Setup(out, logs); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

// use applies the manifests and runs the command.
func (r *runner) use(ctx context.Context) (int, error) {
	if err := r.untilEnd(ctx, r.apply); err != nil {
		return 0, err
	}
	if len(r.Command) == 0 {
		return 0, r.wait()
	}
	command, err := StartCommand(CommandOptions{
		Path: r.path, Args: r.Command, Env: r.environment(), Grace: r.Grace,
		Announce: func(group int) error { return r.dir.guard.End(group, r.Grace) },
	})
	if err != nil {
		return 0, err
	}
	err = r.follow(command)
	command.End()
	if command.killed.Load() {
		_, sayErr := fmt.Fprintf(r.Err, "COMMAND did not end within %s of the signal, and was killed\n", r.Grace)
		err = errors.Join(err, sayErr)
	}
	return command.code, errors.Join(err, r.dir.guard.End(0, 0))
}

// apply applies the CRDs and the manifests.
func (r *runner) apply(ctx context.Context) error {
	if len(r.CRDs)+len(r.Manifests) == 0 {
		return nil
	}
	applier, err := manifests.New(manifests.Config{Client: r.plane.RESTConfig(), Log: r.log})
	if err != nil {
		return err
	}
	if len(r.CRDs) > 0 {
		if err := applier.ApplyOnce(ctx, r.CRDs, manifests.CRDs); err != nil {
			return fmt.Errorf("--crds: %w", err)
		}
	}
	if len(r.Manifests) > 0 {
		if err := applier.ApplyOnce(ctx, r.Manifests, manifests.Everything); err != nil {
			return fmt.Errorf("--manifests: %w", err)
		}
	}
	return nil
}

// untilEnd calls f, and cancels its context when the run is to end: a long list
// of objects must not keep the process from ending. It returns why the run
// is to end, or the error of f.
func (r *runner) untilEnd(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- r.awaitEnd(done)
		cancel()
	}()
	err := f(ctx)
	close(done)
	if reason := <-ended; reason != nil {
		return reason
	}
	return err
}

// awaitEnd returns why the run is to end, or nil when done is closed.
func (r *runner) awaitEnd(done <-chan struct{}) error {
	for {
		select {
		case signal := <-r.Signals:
			if slices.Contains(ending, signal) {
				number, _ := signal.(syscall.Signal) // as all of ending are
				return &CommandError{128 + int(number), fmt.Errorf("%s during the start; everything is removed", signal)}
			}
		case <-r.owner:
			return errors.New("standard input ended during the start; everything is removed")
		case <-done:
			return nil
		}
	}
}

// environment returns that of this process with the variables of the server. It removes
// earlier values of a variable: programs in Go would use the first one.
func (r *runner) environment() []string {
	cmd := &exec.Cmd{Env: append(os.Environ(),
		clientcmd.RecommendedConfigPathEnvVar+"="+r.Config.Kubeconfig.Path,
		DataDirVariable+"="+r.dir.Data(),
		existingCluster)}
	return cmd.Environ()
}

// follow passes signals on until the command ends. The end of the server, or of the
// owner, ends the command.
func (r *runner) follow(command *Command) error {
	for {
		select {
		case <-command.ended:
			return nil
		case signal := <-r.Signals:
			command.process.signal(signal)
			if signal == os.Interrupt || signal == syscall.SIGTERM {
				command.KillAfterGrace()
			}
		case <-r.owner:
			return nil
		case <-r.plane.Done():
			return fmt.Errorf("the server ended, and COMMAND was ended with it: %w", r.plane.Err())
		}
	}
}

// wait prints where the server is and returns when the run is to end.
func (r *runner) wait() error {
	if _, err := fmt.Fprintln(r.Out, ExportLine(clientcmd.RecommendedConfigPathEnvVar,
		r.Config.Kubeconfig.Path)); err != nil {
		return fmt.Errorf("print the kubeconfig's path: %w", err)
	}
	if r.awaitEnd(r.plane.Done()) == nil {
		return fmt.Errorf("the server ended: %w", r.plane.Err())
	}
	return nil
}
