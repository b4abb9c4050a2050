package incluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane"
)

// EnterCommand is the hidden command of this program that calls [Enter].
const EnterCommand = "in-cluster-enter"

// The directories in the temporary directory of a run.
const (
	accountDir = "account" // the files that the program reads
	stageDir   = "stage"   // where mounts are prepared
)

// grace is the time between SIGTERM and SIGKILL for the processes that the program
// leaves in its process group.
const grace = 10 * time.Second

// Account is the access of a service account.
type Account struct {
	Endpoint    kubeconfig.Endpoint
	Namespace   string
	Credentials *kubeconfig.Credentials
}

// Options configure a run.
type Options struct {
	// Issue returns the account with a new token. Run calls it before the program
	// starts, and again before each token expires.
	Issue func(context.Context) (*Account, error)
	// Command is the program with its arguments.
	Command []string
	// Signals are passed on to the program.
	Signals <-chan os.Signal
	// Err gets the failures of renewals.
	Err io.Writer
}

// Run runs the program and returns its exit code, or an error with which code means
// nothing. The temporary directory with the token is removed when the program has
// ended, also if this process is killed. A signal before the program runs ends Run with
// a [testplane.SignalError].
func Run(ctx context.Context, options Options) (code int, err error) {
	path, err := testplane.FindCommand(options.Command[0])
	if err != nil {
		return 0, err // before anything is made
	}
	if err := supported(); err != nil {
		return 0, err
	}
	var account *Account
	err = testplane.UntilSignal(ctx, options.Signals, func(ctx context.Context) (err error) {
		account, err = options.Issue(ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	dir, err := temporary.Make()
	if err != nil {
		return 0, err
	}
	guard, err := testplane.StartGuard(string(dir))
	if err != nil {
		return 0, errors.Join(err, dir.Remove(ctx))
	}
	r := &runner{options: options, path: path, dir: string(dir), guard: guard}
	code, err = r.run(ctx, account)
	// The guard is the last: it removes what a killed process has left.
	return code, errors.Join(err, dir.Remove(ctx), guard.Release())
}

// runner is a Run under way.
type runner struct {
	options Options
	path    string // of the program
	dir     string // the temporary directory
	guard   *testplane.Guard
}

func (r *runner) run(ctx context.Context, account *Account) (int, error) {
	tokens := &renewal{issue: r.options.Issue, dir: filepath.Join(r.dir, accountDir), log: r.options.Err}
	if err := errors.Join(makeAccount(tokens.dir), tokens.write(account)); err != nil {
		return 0, err
	}
	env, err := environment(account)
	if err != nil {
		return 0, err
	}
	command, err := r.start(env)
	if err != nil {
		return 0, err
	}
	follow(ctx, command, tokens, account, r.options.Signals)
	command.End()
	return command.Code(), r.guard.End(0, 0)
}

// follow renews the token and passes signals on until the command ends.
func follow(ctx context.Context, command *testplane.Command, r *renewal, account *Account, signals <-chan os.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() { r.run(ctx, account) })
	defer renewals.Wait()
	defer cancel()
	for {
		select {
		case <-command.Ended():
			return
		case signal := <-signals:
			command.Signal(signal)
		}
	}
}

// environment is that of this process with the variables of in-cluster configuration,
// and without KUBECONFIG, which many programs would prefer.
func environment(account *Account) ([]string, error) {
	host, port, err := kubeconfig.HostPort(account.Endpoint.Server)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Env: append(os.Environ(), "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)}
	var env []string
	for _, variable := range cmd.Environ() {
		if !strings.HasPrefix(variable, clientcmd.RecommendedConfigPathEnvVar+"=") {
			env = append(env, variable)
		}
	}
	return env, nil
}

// start starts the program in the first of the namespaces that this user may make. The
// process that it starts is this program, which mounts the account and then becomes the
// other program. The guard knows its process group before it does anything.
func (r *runner) start(env []string) (*testplane.Command, error) {
	var refused error
	for _, system := range namespaces() {
		started, err := r.startIn(system, env)
		if err == nil {
			return started, nil
		}
		if !errors.Is(refused, errMount) { // it says more than the error of the next attempt
			refused = err
		}
		if !errors.Is(err, syscall.EPERM) && !errors.Is(err, errMount) {
			break
		}
	}
	return nil, errors.Join(refusal(refused), r.guard.End(0, 0))
}

func (r *runner) startIn(system *syscall.SysProcAttr, env []string) (*testplane.Command, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start it again: %w", err)
	}
	outside, err := mountNamespace()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	args := append([]string{"kube-hyper-mini", EnterCommand, outside, r.dir, r.path}, r.options.Command...)
	started, err := testplane.StartCommand(testplane.CommandOptions{
		Path: self, Args: args, Env: env, Grace: grace, System: system, Files: []*os.File{write},
		Announce: func(group int) error { return r.guard.End(group, grace) },
	})
	if failed := new(fs.PathError); errors.As(err, &failed) && failed.Path == self {
		err = failed.Err // COMMAND is another program
	}
	if err = errors.Join(err, write.Close()); err != nil {
		return nil, errors.Join(err, read.Close())
	}
	// The pipe is closed when the process has become the program.
	failure, err := io.ReadAll(read)
	if err = errors.Join(err, read.Close()); err == nil && len(failure) == 0 {
		return started, nil
	}
	started.End()
	if err == nil {
		err = decode(string(failure))
	}
	return nil, err
}

var (
	// errMount means that the process may not mount.
	errMount = errors.New("may not mount")
	// errChroot means that mounts cannot be separated from those of the machine.
	errChroot = errors.New("the root directory is not a mount point, as after chroot")
)

// The words that begin a failure in the pipe, if it is one of these kinds.
const (
	mountFailure  = "mount: "  // errMount
	chrootFailure = "chroot: " // errChroot
	execFailure   = "exec: "   // the program cannot be run
)

// decode turns what Enter has written into an error.
func decode(failure string) error {
	if text, ok := strings.CutPrefix(failure, mountFailure); ok {
		return fmt.Errorf("%w: %s", errMount, text)
	}
	if strings.HasPrefix(failure, chrootFailure) {
		return errChroot
	}
	if text, ok := strings.CutPrefix(failure, execFailure); ok {
		return &testplane.CommandError{Code: testplane.CodeNotExecutable, Err: errors.New(text)}
	}
	return errors.New(failure)
}

// refusal names what the system lacks.
func refusal(err error) error {
	const remedy = "give COMMAND a kubeconfig (kube-hyper-mini kubeconfig create)"
	switch {
	case errors.Is(err, errChroot):
		return fmt.Errorf("make a mount namespace for COMMAND: %w. Run this outside of it, or %s", err, remedy)
	case errors.Is(err, errMount), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC),
		errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("make a mount namespace for COMMAND: %w: this user may not make user namespaces "+
			"(see the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone and "+
			"kernel.apparmor_restrict_unprivileged_userns; a container needs the right to clone and mount). "+
			"Allow them, run this as root, or %s", err, remedy)
	}
	return err
}
