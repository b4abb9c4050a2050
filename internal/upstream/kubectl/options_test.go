package kubectl

import (
	"maps"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
)

// TestFlags: the command has the flags of kubectl's own, with the same defaults.
func TestFlags(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	flags := func(options cmd.KubectlOptions) map[string]string {
		defaults := map[string]string{}
		cmd.NewKubectlCommand(options).PersistentFlags().VisitAll(func(flag *pflag.Flag) { defaults[flag.Name] = flag.DefValue })
		return defaults
	}
	ours, theirs := flags(Options([]string{"kubectl"}, streams)), flags(cmd.KubectlOptions{IOStreams: streams})
	if theirs["as-group"] == "" || !maps.Equal(ours, theirs) {
		t.Errorf("flags and defaults:\n%v\nwant\n%v", ours, theirs)
	}
}
