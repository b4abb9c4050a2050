package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

func newVersion() *cobra.Command {
	var output format
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of its main components",
		Example: `  kube-hyper-mini version
  kube-hyper-mini version -o yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := admin.Versions{Server: version.Release(), Kubernetes: version.Kubernetes(), Etcd: version.Etcd(),
				Go: version.Go()}
			return output.write(cmd.OutOrStdout(), v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "kube-hyper-mini %s\nKubernetes %s\netcd %s\nGo %s\n", v.Server, v.Kubernetes, v.Etcd,
					v.Go)
				return err
			})
		},
	}
	output.add(cmd)
	return cmd
}
