package kubectl

import (
	"context"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
)

// Upstream fact: the options with which kubectl's main function makes its command, and its log
//
// Mirrors: k8s.io/kubernetes/cmd/kubectl.main
//   k8s.io/kubectl/pkg/cmd.NewDefaultKubectlCommand
//   k8s.io/kubectl/pkg/cmd.NewDefaultKubectlCommandWithArgs
//   k8s.io/kubectl/pkg/cmd.NewKubectlCommand
//   k8s.io/kubectl/pkg/cmd.defaultConfigFlags
//   k8s.io/client-go/discovery/cached/memory.memCacheClient.refreshLocked
//   k8s.io/apimachinery/pkg/util/runtime.ErrorHandlers
//   k8s.io/apimachinery/pkg/util/runtime.handleError
//   k8s.io/apimachinery/pkg/util/runtime.logError
// Why: main ends the process, and the exported function that makes the command uses the
//   standard streams and keeps its flags of the connection to itself. kubectl prints an
//   error once at its end; the client of discovery has logged it for each attempt by then,
//   with errors that do not wrap that of the request.
// Gain: `kube-hyper-mini kubectl` behaves as kubectl does, and one line says why there is
//   no server, not five.
// Breaks: flags are missing, which TestFlags notices, discovery is throttled, or there are
//   more lines. Tests: TestDemoteErrors, TestKubectlSubcommand.

// The burst and the rate in a second of requests to discovery.
const (
	discoveryBurst = 300
	discoveryQPS   = 50
)

// Options returns the options of the command kubectl with its arguments, the first of which
// is the name of the program.
func Options(args []string, streams genericiooptions.IOStreams) cmd.KubectlOptions {
	return cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		Arguments:     args,
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().
			WithDiscoveryBurst(discoveryBurst).WithDiscoveryQPS(discoveryQPS).WithWarningPrinter(streams),
		IOStreams: streams,
	}
}

// DemoteErrors has errors whose text contains that of cause logged at verbosity 1 (kubectl
// -v=1), not as errors. It changes globals of the process: call it once, before clients are
// made.
func DemoteErrors(cause error) {
	for i, handle := range utilruntime.ErrorHandlers {
		utilruntime.ErrorHandlers[i] = func(ctx context.Context, err error, message string, values ...any) {
			switch {
			case err == nil || !strings.Contains(err.Error(), cause.Error()):
				handle(ctx, err, message, values...)
			case i == 0: // once
				klog.FromContext(ctx).V(1).Info(message, append([]any{"err", err}, values...)...)
			}
		}
	}
}
