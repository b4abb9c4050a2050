package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
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
			report := func(progress encryption.Progress) error { return printRotation(cmd.OutOrStdout(), progress) }
			return onServer(cmd, flags, nil, func(kubeconfig []byte) error {
				return admin.RotateKey(cmd.Context(), kubeconfig, report)
			})
		},
	}
	flags.addPlane(cmd.Flags())
	return cmd
}

// printRotation prints a phase that has ended, or the objects so far.
func printRotation(out io.Writer, progress encryption.Progress) error {
	text := ""
	switch progress.Phase {
	case encryption.PhaseNewKey:
		text = "new key " + progress.Key
		if progress.Continued {
			text += ", of the rotation that was interrupted"
		}
	case encryption.PhaseLoaded:
		text = "the new key encrypts"
	case encryption.PhaseRewrite:
		text = fmt.Sprintf("%s checked, %d rewritten", quantity(progress.Checked, "object"), progress.Rewritten)
	case encryption.PhaseCompact:
		text = "old versions of the objects removed from etcd"
	case encryption.PhaseOldKey:
		text = "old key removed"
	case encryption.PhaseDone:
		text = fmt.Sprintf("rotated: %s rewritten with key %s", quantity(progress.Rewritten, "object"), progress.Key)
	default:
		return nil
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
