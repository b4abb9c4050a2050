package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
)

func newDefrag() *cobra.Command {
	flags := &configFlags{}
	cmd := &cobra.Command{
		Use:   "defrag",
		Short: "Return free space of the embedded etcd's database to the disk",
		Long: `Rewrite the embedded etcd's database without its free pages, of a running server
or of a stopped one. All reads and writes block until it is done.

With a running server the command uses its API, with the administrator's
kubeconfig in the data directory; it needs the right to POST to the path
/kube-hyper-mini/defragment. A server also defragments when a large part of the
database is free (etcd.embedded.defragment in the configuration).`,
		Example: `  kube-hyper-mini defrag`,
		RunE: flags.with(func(cmd *cobra.Command, _ []string, cfg *config.ServerConfiguration) error {
			var done maintenance.Defragmented
			err := onServer(cmd, flags, func(log *slog.Logger) (err error) {
				done, err = parts.Defragment(cmd.Context(), cfg, log)
				return err
			}, func(kubeconfig []byte) (err error) {
				done, err = admin.Defragment(cmd.Context(), kubeconfig)
				return err
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "defragmented the database from %s to %s in %s\n",
				bytes(done.Before), bytes(done.After), seconds(done.Seconds))
			return err
		}),
	}
	flags.addPlane(cmd.Flags())
	return cmd
}
