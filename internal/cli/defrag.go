package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
)

func newDefrag() *cobra.Command {
	flags := &configFlags{}
	cmd := &cobra.Command{
		Use:   "defrag",
		Short: "Return free space of the embedded etcd's database to the disk",
		Long: `Rewrite the database of a running server's embedded etcd without its free pages. All
reads and writes block until it is done.

The command uses the API of the server, with the administrator's kubeconfig in the
data directory; it needs the right to POST to the path /kube-hyper-mini/defragment. A
server also defragments by itself when a large part of the database is free
(etcd.embedded.defragment in the configuration).`,
		Example: `  kube-hyper-mini defrag`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onServer(cmd, flags, nil, func(kubeconfig []byte) error {
				done, err := admin.Defragment(cmd.Context(), kubeconfig)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "defragmented the database from %s to %s in %s\n",
					bytes(done.Before), bytes(done.After), seconds(done.Seconds))
				return err
			})
		},
	}
	flags.addPlane(cmd.Flags())
	return cmd
}
