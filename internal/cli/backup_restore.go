package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
)

func newBackupRestore() *cobra.Command {
	flags, key := &configFlags{}, &keyFlags{}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make an archive the content of the data directory, and keep what was there",
		Long: `Make an archive the content of the data directory. Its server must be stopped.

The archive is verified and everything is made of it before anything is moved.
What was in the data directory is kept in a directory in it, which its last line
names and which can be used as a data directory itself.

The revision goes up by a thousand million, so that clients that watch begin
with new lists. The saved configuration is put beside the data for reading;
the server is still started with --config.`,
		Example: `  kube-hyper-mini backup restore /mnt/backups/today.tar.gz
  kube-hyper-mini backup restore --data-dir ./another today.tar.gz`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := completed(cmd, flags)
			if err != nil {
				return err
			}
			log, err := commandLog(cmd, cfg)
			if err != nil {
				return err
			}
			restored, err := admin.Restore(cfg, log, args[0], key.key)
			if err != nil {
				return err
			}
			m, out := restored.Manifest, cmd.OutOrStdout()
			if _, err := fmt.Fprintf(out, "restored %s: %d objects as of revision %d\n", cfg.DataDir, objects(m), m.Snapshot.Revision); err != nil {
				return err
			}
			if err := tellLeftOut(out, m); err != nil {
				return err
			}
			if restored.Config != "" {
				if _, err := fmt.Fprintf(out, "the configuration of the server that was saved is in %s\n", restored.Config); err != nil {
					return err
				}
			}
			if restored.Old != "" {
				if _, err := fmt.Fprintf(out, "what was there before is in %s\n", restored.Old); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.locate(cmd.Flags())
	key.add(cmd.Flags())
	return cmd
}
