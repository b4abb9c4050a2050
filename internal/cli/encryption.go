package cli

import (
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
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
		Long: `Replace the key that encrypts resources in etcd, of a running server or of a
stopped one. The command makes a new key, rewrites all encrypted objects with it,
and removes the old key from <dataDir>/encryption/config.yaml when no object
needs it. Objects stay readable. An interrupted rotation continues with the next
call, or when the server starts.

A file that was edited is only read: rotate its keys by editing it. Backups from
before a rotation contain and need the old key.

On an external etcd only a single server rotates. Others that are started later
need its new encryption/config.yaml ("kube-hyper-mini bundle").

With a running server the command uses its API, with the administrator's
kubeconfig in the data directory; it needs the right to POST to the path
/kube-hyper-mini/encryption/rotate.`,
		Example: `  kube-hyper-mini encryption rotate`,
		RunE: flags.with(func(cmd *cobra.Command, _ []string, cfg *config.ServerConfiguration) error {
			showProgress(cmd)
			log, err := commandLog(cmd, cfg)
			if err != nil {
				return err
			}
			rotation := &rotationReport{cmd: cmd}
			defer track(cmd, "rewriting objects", rotation.done)()
			err = parts.RotateKey(cmd.Context(), cfg, log, rotation.report)
			return ifRunning(cmd, flags, err, func(kubeconfig []byte) error {
				return admin.RotateKey(cmd.Context(), kubeconfig, rotation.report)
			})
		}),
	}
	flags.addLocation(cmd.Flags())
	return cmd
}

// rotationReport prints the phases of a rotation and keeps the latest progress.
type rotationReport struct {
	cmd    *cobra.Command
	latest atomic.Pointer[encryption.Progress]
}

func (r *rotationReport) report(progress encryption.Progress) error {
	r.latest.Store(&progress)
	if progress.Phase == encryption.PhaseRewrite && isTerminal(r.cmd.ErrOrStderr()) {
		return nil // the line of progress shows it
	}
	return printRotation(r.cmd, progress)
}

// done returns the numbers of objects that were checked and rewritten.
func (r *rotationReport) done() string {
	progress := r.latest.Load()
	if progress == nil {
		return ""
	}
	return fmt.Sprintf("%s checked, %d rewritten", quantity(progress.Checked, "object"), progress.Rewritten)
}

func printRotation(cmd *cobra.Command, progress encryption.Progress) error {
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
	out := cmd.OutOrStdout()
	if isTerminal(out) && isTerminal(cmd.ErrOrStderr()) {
		out = cmd.ErrOrStderr() // above the line of progress
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
