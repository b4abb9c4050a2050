package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
)

func newBundle() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Give a further server of an external etcd the same authorities and keys",
		Long: `Give a further server of an external etcd the same certificate authorities and
keys as the first one: create a bundle there, import it here, start the server.
A bundle is an archive without objects; keep it as you keep keys.`,
		Example: `  kube-hyper-mini bundle create first.tar.gz
  kube-hyper-mini bundle import first.tar.gz --config /etc/kube-hyper-mini/config.yaml`,
	}
	cmd.AddCommand(newBundleCreate(), newBundleImport())
	return cmd
}

func newBundleCreate() *cobra.Command {
	flags, seal := &configFlags{}, &sealFlags{}
	cmd := &cobra.Command{
		Use:   "create FILE|-",
		Short: "Save the authorities and keys of this data directory",
		Args:  exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := completed(cmd, flags)
			if err != nil {
				return err
			}
			to, err := seal.resolve(cfg)
			if err != nil {
				return err
			}
			return saveArchive(cmd, cfg, args[0], to, func(ctx context.Context, w io.Writer) error {
				return admin.Bundle(ctx, cfg, w)
			})
		},
	}
	flags.locate(cmd.Flags())
	seal.add(cmd.Flags())
	return cmd
}

func newBundleImport() *cobra.Command {
	flags, key := &configFlags{}, &keyFlags{}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Begin a data directory with the authorities and keys of another",
		Args:  exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := completed(cmd, flags)
			if err != nil {
				return err
			}
			m, err := admin.ImportBundle(cfg, args[0], key.key)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has the identity of the server on %s now; start its server\n", cfg.DataDir, m.Host)
			return err
		},
	}
	flags.locate(cmd.Flags())
	key.add(cmd.Flags())
	return cmd
}
