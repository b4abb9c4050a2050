package kubectl

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	upstream "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kubectl"
)

// name is the name of the program in kubectl's messages.
const name = "kubectl"

// Streams are the standard streams of a run.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run runs kubectl with its arguments and returns its exit code. It writes errors to
// Err. A plugin (kubectl-NAME in PATH) replaces this process. It changes process
// globals of kubectl: call it once.
//
// kubectl's own main function ends the process itself.
func Run(args []string, streams Streams, connection Connection) int {
	code := make(chan int, 1)
	cmdutil.BehaviorOnFatal(func(message string, exit int) {
		if message != "" {
			// there is nowhere else to report it
			_, _ = fmt.Fprintln(streams.Err, strings.TrimSuffix(message, "\n")+connection.hint(message))
		}
		code <- exit
		runtime.Goexit() // the caller expects that this does not return
	})
	go func() {
		options := options(args, streams)
		connection.apply(options.ConfigFlags)
		command := cmd.NewDefaultKubectlCommandWithArgs(options)
		prepare := command.PersistentPreRunE
		command.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
			return errors.Join(prepare(cmd, args), upstream.KeepDiscovery(options.ConfigFlags))
		}
		command.SetArgs(args)
		command.SetIn(streams.In)
		command.SetOut(streams.Out)
		command.SetErr(streams.Err)
		cmdutil.CheckErr(cli.RunNoErrOutput(command))
		code <- 0
	}()
	return <-code
}

func options(args []string, streams Streams) cmd.KubectlOptions {
	return upstream.Options(append([]string{name}, args...),
		genericiooptions.IOStreams{In: streams.In, Out: streams.Out, ErrOut: streams.Err})
}

// Kubeconfig returns the value of --kubeconfig in the arguments; empty without one.
func Kubeconfig(args []string) string {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if value, ok := strings.CutPrefix(arg, "--kubeconfig="); ok {
			return value
		}
		if arg == "--kubeconfig" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// Command returns the command of kubectl that the arguments run, without those below it: "config" for
// `kubectl config view`, "kubectl" for none; empty for an unknown one.
func Command(args []string) string {
	command, _, err := cmd.NewKubectlCommand(options(args,
		Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})).Find(args)
	if err != nil {
		return "" // kubectl reports it
	}
	for command.HasParent() && command.Parent().HasParent() {
		command = command.Parent()
	}
	return command.Name()
}
