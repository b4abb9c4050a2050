package apiserver

import (
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"

	"kube-hyper-mini.io/kube-hyper-mini/internal/kubernetes"
)

// CommandLine returns the flags of kube-apiserver that are known here, to read a
// command line and to list them. Setting them has no effect.
func CommandLine() *pflag.FlagSet {
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	var sections cliflag.NamedFlagSets
	options.NewOptions().AddFlags(&sections)
	for _, section := range sections.FlagSets {
		flags.AddFlagSet(section)
	}
	kubernetes.NewOptions().AddFlags(flags)
	return flags
}

// Refused returns why the server takes no value for a flag of kube-apiserver; empty for
// other flags.
func Refused(name string) string {
	if reason := unsupported[name]; reason != "" {
		return reason
	}
	if instead, ok := owned[name]; ok && name != anonymousFlag {
		return "is set by the server itself; in a configuration file use " + instead
	}
	return ""
}

// anonymousFlag is refused in the configuration file only, which has
// apiServer.authentication.configFile for it.
const anonymousFlag = "anonymous-auth"
