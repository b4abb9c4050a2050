package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	_ "kube-hyper-mini.io/kube-hyper-mini/controlplane/s3" // journals in buckets
	"kube-hyper-mini.io/kube-hyper-mini/internal/memory"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

// The exit codes. After ExitUsage the systemd unit does not restart the server: a restart
// does not correct the configuration.
const (
	// ExitOK: the command succeeded.
	ExitOK = 0
	// ExitFailure: the command failed.
	ExitFailure = 1
	// ExitUsage: the command line or the configuration is invalid; the command did
	// nothing.
	ExitUsage = 2
	// ExitNotReady: `status` found a server that is not ready, or none.
	ExitNotReady = 3
	// ExitFindings: `doctor` found something.
	ExitFindings = 4
	// ExitInterrupted: a second signal interrupted an orderly stop.
	ExitInterrupted = 130
)

// Streams are the command's standard input and outputs.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// managesMemory is the annotation of commands that run a server, see [memory.Manage].
const managesMemory = "manages-memory"

// runsServer returns the annotations of a command that runs a server.
func runsServer() map[string]string { return map[string]string{managesMemory: "yes"} }

// exitError carries an exit code with an error.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

func usageError(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{ExitUsage, err}
}

// Run executes the command line and returns the exit code of the process. When ctx ends, a
// running server stops.
func Run(ctx context.Context, args []string, streams Streams) int {
	return execute(ctx, newRoot(streams.Out), args, streams)
}

// execute runs a command and returns the process's exit code.
func execute(ctx context.Context, root *cobra.Command, args []string, streams Streams) int {
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	isRoot := os.Geteuid() == 0
	stopManaging := func() {}
	defer func() { stopManaging() }()
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Annotations[managesMemory] != "" {
			stopManaging = memory.Manage()
		}
	}
	var refused error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		// "kubeconfig merge --help" names a command that does not exist.
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			refused = unknownCommand(cmd, words[0])
			return
		}
		help(cmd, args)
	})
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = refused
	}
	if err == nil {
		return ExitOK
	}
	if uid := os.Geteuid(); isRoot && uid != 0 && errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w\nroot runs this command as the owner of the data directory, user %d: name a file or directory "+
			"that this user may use, or redirect standard input or output", err, uid)
	}
	var exit *exitError
	code := ExitFailure
	if errors.As(err, &exit) {
		code = exit.code
	}
	if text := err.Error(); text != "" {
		for line := range strings.Lines(text) {
			_, _ = fmt.Fprintln(streams.Err, "error: "+strings.TrimSuffix(line, "\n")) // there is nowhere else to report it
		}
	}
	return code
}

func newRoot(out io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "kube-hyper-mini",
		Short: "The Kubernetes control plane without the containers, in one process",
		Long: `A command works on one server. --kubeconfig names it; without that, --data-dir or
--config; without those, $KUBE_HYPER_MINI_DATA_DIR; otherwise it is the server of this
machine. If this machine has none, kubectl, history and undelete use KUBECONFIG.

This is the Kubernetes control plane without the containers, in one process: etcd, the
API server with CRDs and aggregation, and the generic controllers. Start it with
"kube-hyper-mini server", then use kubectl.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(flagError)
	root.Version = version.Release() // --version
	root.AddCommand(
		newServer(), newRun(), newGuard(), newCheckDatabase(), newKubectl(), newAPIServer(), newControllers(), newEtcd(),
		newConfig(), newConsole(), newKubeconfig(), newStatus(), newBackup(), newCerts(),
		newDefrag(), newDoctor(), newEncryption(), newEnvtest(), newHistory(),
		newReset(), newUndelete(), newVersion(), newMan(),
	)
	root.SetHelpCommand(newHelp())
	root.SetUsageTemplate(usageTemplate(root))
	root.SetOut(out)                // which the command for completion takes now
	root.InitDefaultCompletionCmd() // checkArguments must see it
	checkArguments(root)
	return root
}

// checkArguments makes a command return a usage error for arguments that it does not take,
// and a group of commands for an unknown command. A group without arguments runs its own
// RunE, or shows its help, with the first example of each command.
func checkArguments(cmd *cobra.Command) {
	var examples []string
	switch {
	case cmd.HasSubCommands():
		cmd.Args = cobra.ArbitraryArgs
		ownRun := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && ownRun != nil {
				return ownRun(cmd, args)
			}
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		}
		cmd.SuggestionsMinimumDistance = 2
	case cmd.Args == nil:
		cmd.Args = exactly()
	}
	for _, child := range cmd.Commands() {
		checkArguments(child)
		if first, _, _ := strings.Cut(child.Example, "\n"); cmd.HasParent() && cmd.Example == "" {
			examples = append(examples, first)
		}
	}
	if len(examples) > 0 {
		cmd.Example = strings.Join(examples, "\n")
	}
}

// unknownCommand names a command that is spelled alike or, of a group, all commands.
func unknownCommand(parent *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, parent.CommandPath())
	near := parent.SuggestionsFor(name)
	switch {
	case parent.HasParent() && (len(near) == 0 || parent.Name() == "completion"):
		text += "; allowed: " + strings.Join(commandNames(parent), ", ")
	case len(near) > 0:
		return usageError(fmt.Errorf("%s; did you mean %q?", text, near[0]))
	}
	return usageError(errors.New(text + "; see --help"))
}

// atMostOne accepts no argument or one, with the given name.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return usageError(fmt.Errorf("%q takes at most one %s, got %s", cmd.CommandPath(), name, quoted(args)))
	}
}

// exactly accepts exactly the named arguments.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		want := "no arguments"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		return usageError(fmt.Errorf("%q takes %s, got %s; see --help", cmd.CommandPath(), want, quoted(args)))
	}
}

// quoted describes arguments for an error.
func quoted(args []string) string {
	if len(args) == 0 {
		return "none"
	}
	return fmt.Sprintf("%q", args)
}
