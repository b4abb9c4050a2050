package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane"
)

// commandGrace is the default of --grace.
const commandGrace = 10 * time.Second

const runHelp = `Start a new server for tests, run COMMAND, and remove the server.

The server runs in this process, on a free port and in a temporary directory, and
does not sync writes to the disk. COMMAND starts when the server is ready, with the
environment variables

  KUBECONFIG                the administrator's kubeconfig
  USE_EXISTING_CLUSTER      true, for controller-runtime's envtest
  KUBE_HYPER_MINI_DATA_DIR  the data directory, where this program's commands find the server

COMMAND runs in its own process group. Signals to this process are passed on to that
group. After SIGTERM or an interrupt, COMMAND is killed when --grace has passed. When
COMMAND has ended, the remaining processes of its group are ended, and the server and
its directory are removed; also if this process is killed.

--config may name the configuration of another server: its data directory, external
etcd, journal, backups, audit log and kubeconfig are not used.

Without COMMAND, the command prints a shell line that sets KUBECONFIG, and waits for
Ctrl-C. A program that starts it that way gives --until-eof and keeps a pipe to its
standard input open: the server then ends when that program ends or is killed.

Exit codes: that of COMMAND; 128 plus the number of the signal that ended COMMAND;
127 if COMMAND was not found, 126 if it cannot be run; 1 if the server failed; 2 if
the command line or the configuration is wrong.`

func newRun() *cobra.Command {
	flags, options := &configFlags{}, testplane.RunOptions{}
	var untilEOF bool
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command with a new server that is removed afterwards",
		Long:  runHelp,
		Example: `  kube-hyper-mini run -- go test ./...
  kube-hyper-mini run --profile kubernetes -- make test
  kube-hyper-mini run --crds config/crd/bases -- pytest
  kube-hyper-mini run --keep -- make test`,
		Args:        cobra.ArbitraryArgs,
		Annotations: runsServer(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at > 0 || at < 0 && len(args) > 0 {
				return usageError(errors.New("COMMAND follows \"--\", as in: kube-hyper-mini run -- go test"))
			}
			if options.Grace < 0 {
				return usageError(fmt.Errorf("--grace %s is negative: write a duration as 10s", options.Grace))
			}
			for _, path := range slices.Concat(options.CRDs, options.Manifests) {
				if strings.Contains(path, "://") {
					return usageError(fmt.Errorf("%s is a URL, and run reads files: download it first, as with curl -LO", path))
				}
			}
			cfg, source, err := flags.load(cmd)
			if err != nil {
				return err
			}
			if cfg.Planes.Enabled {
				return planesNeedServer(source)
			}
			cfg.Serving.ExternalURL = "" // its port is that of another server
			if !cmd.Flags().Changed("port") {
				cfg.Serving.Port = 0
			}
			options.Config, options.Command = cfg, args
			options.Out, options.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if untilEOF {
				options.Owner = cmd.InOrStdin()
			}
			adoptOrphans(cmd.Context())
			options.Signals = takeSignals()
			code, err := testplane.Run(cmd.Context(), options)
			return runError(code, located(source, err))
		},
	}
	flags.addRun(cmd.Flags())
	runFlags(cmd.Flags(), &options)
	cmd.Flags().BoolVar(&untilEOF, "until-eof", false, "end when standard input ends; COMMAND then has no standard input")
	return cmd
}

func runFlags(flags *pflag.FlagSet, options *testplane.RunOptions) {
	flags.StringArrayVar(&options.CRDs, "crds", nil, "file or directory of CustomResourceDefinitions to apply first; "+
		"other documents are ignored (repeatable)")
	flags.StringArrayVar(&options.Manifests, "manifests", nil,
		"file or directory of manifests to apply after the CRDs (repeatable)")
	flags.BoolVar(&options.Keep, "keep", false, "keep the temporary directory, and print its path")
	flags.StringVar(&options.Log, "logs", "", "file for the server's log; - is standard error")
	options.Grace = commandGrace
	addDuration(flags, &options.Grace, "grace", "time between SIGTERM and SIGKILL for COMMAND")
}

// takeSignals receives signals instead of the handler of main, which would end the
// server while COMMAND still uses it, and the process at a second signal. SIGHUP stays
// ignored under nohup.
func takeSignals() <-chan os.Signal {
	signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signals := make(chan os.Signal, 16)
	for _, taken := range testplane.Forwarded {
		if taken != syscall.SIGHUP || !signal.Ignored(taken) {
			signal.Notify(signals, taken)
		}
	}
	return signals
}

// runError turns the result of a run into an exit code.
func runError(code int, err error) error {
	var command *testplane.CommandError
	switch {
	case errors.As(err, &command):
		return &exitError{command.Code, err}
	case err == nil && code != 0:
		return &exitError{code, errors.New("")} // COMMAND has printed the error
	}
	return err
}

// newGuard is for package testplane, which starts this program with it.
func newGuard() *cobra.Command {
	return &cobra.Command{
		Use:    testplane.GuardCommand,
		Short:  "Clean up after the process at the other end of standard input",
		Hidden: true,
		RunE:   func(cmd *cobra.Command, _ []string) error { return testplane.Watch(cmd.InOrStdin()) },
	}
}

// newCheckDatabase is for package etcd, which starts this program with it.
func newCheckDatabase() *cobra.Command {
	return &cobra.Command{
		Use:    etcd.CheckCommand + " FILE",
		Short:  "Print what is wrong with a database of etcd that nobody uses",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return etcd.CheckDatabase(args[0], cmd.OutOrStdout()) },
	}
}
