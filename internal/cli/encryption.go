package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
)

func newEncryption() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "encryption",
		Short: "Rotate the key that encrypts resources in etcd",
	}
	cmd.AddCommand(newEncryptionRotate())
	return cmd
}

func newEncryptionRotate() *cobra.Command {
	flags := &configFlags{}
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the key that encrypts resources in etcd",
		Long: `Replace the key that encrypts resources in etcd, of a running server. The command makes
a new key, rewrites all encrypted objects with it, and removes the old key from
<dataDir>/encryption/config.yaml when no object needs it. Objects stay readable. An
interrupted rotation continues with the next call, or when the server starts.

A file that was edited is only read: rotate its keys by editing it. Backups from
before a rotation contain and need the old key.

On an external etcd only a single server rotates. Others that are started later
need its new encryption/config.yaml.

The command uses the API of the server, with the administrator's kubeconfig in the data
directory; it needs the right to POST to the path /kube-hyper-mini/encryption/rotate.`,
		Example: `  kube-hyper-mini encryption rotate`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onServer(cmd, flags, nil, func(kubeconfig []byte) error {
				done, err := admin.RotateKey(cmd.Context(), kubeconfig)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "rotated: %s rewritten with key %s\n", quantity(done.Rewritten, "object"),
					done.Key)
				return err
			})
		},
	}
	flags.addPlane(cmd.Flags())
	return cmd
}
