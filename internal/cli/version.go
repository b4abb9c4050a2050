package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of its main components",
		Example: `  kube-hyper-mini version
  kube-hyper-mini version -o yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := admin.Versions{Server: version.Release(), Kubernetes: version.Kubernetes(), Etcd: version.Etcd(), Go: version.Go()}
			if output != "text" {
				return printValue(cmd.OutOrStdout(), v, output)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "kube-hyper-mini %s\nKubernetes %s\netcd %s\nGo %s\n", v.Server, v.Kubernetes, v.Etcd, v.Go)
			return err
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
