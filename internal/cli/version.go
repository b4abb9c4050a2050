package cli

import (
	"encoding/json"
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
			v := admin.Versions{Server: version.Release(), Kubernetes: version.Kubernetes(), Etcd: version.Etcd(), Go: version.Go()}
			switch output {
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(v)
			case "text":
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "kube-hyper-mini %s\nKubernetes %s\netcd %s\nGo %s\n", v.Server, v.Kubernetes, v.Etcd, v.Go)
				return err
			}
			return usageError(fmt.Errorf("--output %q is not supported; allowed: text, json", output))
		},
	}
	outputFlag(cmd, &output, "text", "json")
	return cmd
}
