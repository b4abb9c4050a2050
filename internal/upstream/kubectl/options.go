package kubectl

import (
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
)

// Upstream fact: the options with which kubectl's main function makes its command
//
// Mirrors: k8s.io/kubernetes/cmd/kubectl.main
//   k8s.io/kubectl/pkg/cmd.NewDefaultKubectlCommand
//   k8s.io/kubectl/pkg/cmd.NewDefaultKubectlCommandWithArgs
//   k8s.io/kubectl/pkg/cmd.NewKubectlCommand
//   k8s.io/kubectl/pkg/cmd.defaultConfigFlags
// Why: main ends the process, and the exported function that makes the command uses the
//   standard streams and keeps its flags of the connection to itself.
// Gain: `kube-hyper-mini kubectl` behaves as kubectl does.
// Breaks: flags are missing, which TestFlags notices, or discovery is throttled.

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
