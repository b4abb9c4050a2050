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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			v := admin.Versions{Server: version.Release(), Kubernetes: version.Kubernetes(), Etcd: version.Etcd(), Go: version.Go()}
			if output == "json" {
				return printJSON(cmd.OutOrStdout(), v)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "kube-hyper-mini %s\nKubernetes %s\netcd %s\nGo %s\n", v.Server, v.Kubernetes, v.Etcd, v.Go)
			return err
		},
	}
	outputFlag(cmd, &output, "text", "json")
	return cmd
}
