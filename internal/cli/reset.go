package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

func newReset() *cobra.Command {
	flags := &configFlags{}
	var yes, backups bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Remove the data directory: all objects, certificates and keys",
		Long: `Remove the files that servers and commands have made in the data directory: all
objects, certificates and keys. The command lists them and asks for confirmation.
It keeps files that are not part of a data directory and, without --backups, the
backups. Of a directory that is a link, such as etcd, it removes the content, too. It
returns an error if a server uses the directory, or if the directory is not the data
directory of a server.

It does not remove objects in an external etcd, or a kubeconfig outside of the
data directory. A new server on that etcd needs the identity of the removed one (the
directories pki and encryption), or --new-identity.

Exit codes: 0 removed or no such directory, 1 refused or failed, 2 not confirmed.`,
		Example: `  kube-hyper-mini reset
  kube-hyper-mini reset --data-dir ./data --yes
  kube-hyper-mini reset --backups`,
		RunE: flags.with(func(cmd *cobra.Command, _ []string, cfg *config.ServerConfiguration) error {
			done, err := datadir.Remove(cfg.DataDir, backups, func(plan *datadir.Removal) error {
				if yes {
					return nil
				}
				return confirm(cmd, cfg.DataDir, plan)
			})
			if errors.Is(err, os.ErrNotExist) {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s does not exist: nothing to remove\n", cfg.DataDir)
				return err
			}
			if err != nil {
				return err
			}
			return printRemoved(cmd.OutOrStdout(), cfg, done)
		}),
	}
	flags.addLocation(cmd.Flags())
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&backups, "backups", false, "remove the backups in the data directory too")
	return cmd
}

// printRemoved prints what was removed, what was kept and which kubeconfig is invalid.
func printRemoved(w io.Writer, cfg *config.ServerConfiguration, done *datadir.Removal) error {
	text := "removed " + cfg.DataDir
	if stay := append(done.Backups, done.Others...); len(stay) > 0 {
		text += ", except " + datadir.JoinFirst(stay)
	}
	if _, err := os.Stat(cfg.Kubeconfig.Path); err == nil {
		text += "; the kubeconfig " + cfg.Kubeconfig.Path + " is no longer valid"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// confirm asks on standard error, so that the answer can come from a pipe.
func confirm(cmd *cobra.Command, path string, plan *datadir.Removal) error {
	text := fmt.Sprintf("This removes all objects, certificates and keys in %s: %s\n", path,
		strings.Join(plan.Removed, ", "))
	if len(plan.Backups) > 0 {
		text += "Backups stay (--backups removes them): " + strings.Join(plan.Backups, ", ") + "\n"
	}
	if len(plan.Others) > 0 {
		text += "Other files stay: " + strings.Join(plan.Others, ", ") + "\n"
	}
	if _, err := fmt.Fprint(cmd.ErrOrStderr(), text+"Type yes: "); err != nil {
		return err
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // they end the process, as by default: nothing has begun
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return usageError(errors.New("not confirmed, nothing was removed; answer yes, or give --yes"))
	}
	return nil
}
