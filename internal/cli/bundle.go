package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
)

func newBundle() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Copy certificates and keys to another server of the same external etcd",
		Long: `Copy the certificate authorities and keys of a server to another server of the
same external etcd: create a bundle on the first one, import it on the other one,
then start that. A bundle is a backup without objects. Protect it like a
private key.`,
		Example: `  kube-hyper-mini bundle create first.tar.gz
  kube-hyper-mini bundle import first.tar.gz --config /etc/kube-hyper-mini/config.yaml`,
	}
	cmd.AddCommand(newBundleCreate(), newBundleImport())
	return cmd
}

func newBundleCreate() *cobra.Command {
	flags, encryption := &configFlags{}, &encryptFlags{}
	cmd := &cobra.Command{
		Use:     "create FILE|-",
		Short:   "Save the certificate authorities and keys of this data directory",
		Example: `  kube-hyper-mini bundle create --encrypt-to age1... first.tar.gz.age`,
		Args:    exactly("FILE"),
		RunE: flags.with(func(cmd *cobra.Command, args []string, cfg *config.ServerConfiguration) error {
			to, err := encryption.resolve(cfg)
			if err != nil {
				return err
			}
			return saveBackup(cmd, cfg, args[0], to, func(ctx context.Context, w io.Writer) error {
				return parts.Bundle(ctx, cfg, w)
			})
		}),
	}
	flags.addLocation(cmd.Flags())
	encryption.add(cmd.Flags())
	return cmd
}

func newBundleImport() *cobra.Command {
	flags, key := &configFlags{}, &keyFlags{}
	cmd := &cobra.Command{
		Use:     "import FILE",
		Short:   "Make a data directory with the certificate authorities and keys of a bundle",
		Example: `  kube-hyper-mini bundle import first.tar.gz --config /etc/kube-hyper-mini/config.yaml`,
		Args:    exactly("FILE"),
		RunE: flags.with(func(cmd *cobra.Command, args []string, cfg *config.ServerConfiguration) error {
			m, err := parts.ImportBundle(cmd.Context(), cfg, args[0], key.key)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has the certificates and keys of the server on %s; start the server\n", cfg.DataDir, m.Host)
			return err
		}),
	}
	flags.addLocation(cmd.Flags())
	key.add(cmd.Flags())
	return cmd
}
